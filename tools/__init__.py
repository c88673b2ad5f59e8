"""The tools that the example workflows are built from: an application, not part of the library."""
