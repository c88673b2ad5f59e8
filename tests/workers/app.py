"""The application of a worker that is a process of its own."""

import os
from pathlib import Path

from tests.workers.flows import workflows

DATABASE = Path(os.environ["STEPWELL_DATABASE_URL"].removeprefix("sqlite:///"))
plain, holding, pooling, finding, paying = workflows(DATABASE.parent)
