PRAGMA application_id=1398034519;
PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE approval (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	call INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	all_of_tool BOOLEAN NOT NULL, 
	asked_at BIGINT NOT NULL, 
	asked_seq INTEGER NOT NULL, 
	expires_at BIGINT, 
	decided_at BIGINT, 
	decided_seq INTEGER, 
	decided_by VARCHAR, 
	reason VARCHAR, 
	PRIMARY KEY (run, number), 
	FOREIGN KEY(run) REFERENCES run (number)
)
 WITHOUT ROWID

;
INSERT INTO "approval" VALUES(1,1,2,'in_doubt','approved','40b1ecb4f10de7cd83f5bb53be6a90eb95ae168f78a2b16a0407fe1d0bc9e130',0,1796040001000,5,NULL,1796040001000,6,'bob',NULL);
INSERT INTO "approval" VALUES(1,2,3,'approval','approved','988f7cdb8dd950ef2ad0cac6f527aefc043ad8f094d3cdb3c25491f9f2210972',0,1796040001000,5,1796644801000,1796040001000,7,'bob',NULL);
CREATE TABLE call (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	provider_id VARCHAR NOT NULL, 
	tool VARCHAR NOT NULL, 
	arguments TEXT, 
	edited TEXT, 
	status VARCHAR NOT NULL, 
	outcome TEXT, 
	requested_seq INTEGER NOT NULL, 
	started_seq INTEGER, 
	restarted_seq INTEGER, 
	reconciled_seq INTEGER, 
	finished_seq INTEGER, 
	fence INTEGER, 
	ms INTEGER, 
	late_outcome TEXT, 
	PRIMARY KEY (run, number), 
	FOREIGN KEY(run) REFERENCES run (number)
)
 WITHOUT ROWID

;
INSERT INTO "call" VALUES(1,1,'call_1','look','{"q":"x"}',NULL,'ok','{"ok":true,"result":"found"}',2,2,NULL,NULL,3,1,7,NULL);
INSERT INTO "call" VALUES(1,2,'call_2','pay','{"amount":5}',NULL,'ok','{"ok":true,"result":"paid"}',2,2,8,NULL,9,4,7,NULL);
INSERT INTO "call" VALUES(1,3,'call_3','wire','{"amount":6}','{"amount":4}','ok','{"ok":true,"result":"wired","edited_arguments":{"amount":4}}',2,8,NULL,NULL,10,4,7,NULL);
INSERT INTO "call" VALUES(1,4,'call_4','look','{"q":"y"}',NULL,'ok','{"ok":true,"result":"seen"}',12,12,NULL,NULL,13,6,7,NULL);
CREATE TABLE full_result (
	number INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	call INTEGER NOT NULL, 
	text VARCHAR NOT NULL, 
	PRIMARY KEY (number), 
	CONSTRAINT full_result_call UNIQUE (run, call), 
	FOREIGN KEY(run) REFERENCES run (number)
);
CREATE TABLE message (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	role VARCHAR NOT NULL, 
	text VARCHAR NOT NULL, 
	reasoning VARCHAR, 
	provider VARCHAR, 
	raw TEXT, 
	PRIMARY KEY (run, number), 
	FOREIGN KEY(run) REFERENCES run (number)
)
 WITHOUT ROWID

;
INSERT INTO "message" VALUES(1,1,1,'user','Pay Ann',NULL,NULL,NULL);
INSERT INTO "message" VALUES(1,2,2,'assistant','Looking.',NULL,NULL,NULL);
INSERT INTO "message" VALUES(1,3,12,'assistant','',NULL,NULL,NULL);
INSERT INTO "message" VALUES(1,4,16,'assistant','Paid.',NULL,NULL,NULL);
CREATE TABLE note (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	text VARCHAR NOT NULL, 
	PRIMARY KEY (run, number), 
	FOREIGN KEY(run) REFERENCES run (number)
)
 WITHOUT ROWID

;
INSERT INTO "note" VALUES(1,1,10,'a note');
CREATE TABLE run (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	workflow VARCHAR NOT NULL, 
	"key" VARCHAR, 
	user VARCHAR, 
	model VARCHAR, 
	approve VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	fence INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	not_before BIGINT, 
	owner INTEGER, 
	lease_until BIGINT, 
	max_turns INTEGER NOT NULL, 
	max_tool_calls INTEGER NOT NULL, 
	turns INTEGER NOT NULL, 
	tool_calls INTEGER NOT NULL, 
	input_tokens INTEGER NOT NULL, 
	cached_tokens INTEGER NOT NULL, 
	output_tokens INTEGER NOT NULL, 
	cost BIGINT, 
	reserved_turns INTEGER NOT NULL, 
	digest VARCHAR, 
	answer VARCHAR, 
	error TEXT, 
	cancel_requested VARCHAR, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	PRIMARY KEY (number), 
	CONSTRAINT run_key UNIQUE (workflow, "key"), 
	UNIQUE (id), 
	FOREIGN KEY(owner) REFERENCES worker (number)
);
INSERT INTO "run" VALUES(1,'01M8P570G0EZJWNT072NVBRYNW','w',NULL,'ann',NULL,'park','done',16,7,1,NULL,NULL,NULL,5,50,4,4,30,1,5,NULL,0,'76645658','Paid.',NULL,NULL,1796040000000,1796040001000,1796040001000);
CREATE TABLE transition (
	run INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	"trigger" VARCHAR NOT NULL, 
	source VARCHAR, 
	dest VARCHAR NOT NULL, 
	"by" VARCHAR, 
	worker INTEGER, 
	fence INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	digest VARCHAR, 
	model VARCHAR, 
	input_tokens INTEGER, 
	cached_tokens INTEGER, 
	output_tokens INTEGER, 
	cost BIGINT, 
	error TEXT, 
	PRIMARY KEY (run, seq), 
	FOREIGN KEY(run) REFERENCES run (number)
)
 WITHOUT ROWID

;
INSERT INTO "transition" VALUES(1,1,1796040000000,'start',NULL,'awaiting_model','ann',NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,2,1796040000000,'request_tools','awaiting_model','dispatching',NULL,1,1,1,'76645658','scripted:test',10,1,2,1000000000,NULL);
INSERT INTO "transition" VALUES(1,3,1796040001000,'call_finished','dispatching','dispatching',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,4,1796040001000,'retry','dispatching','dispatching',NULL,NULL,2,2,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"worker_lost","message":"The process that drove this run was lost in dispatching (attempt 1 of 5)."}');
INSERT INTO "transition" VALUES(1,5,1796040001000,'ask','dispatching','awaiting_approval',NULL,1,3,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,6,1796040001000,'decision','awaiting_approval','awaiting_approval','bob',NULL,3,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,7,1796040001000,'decided','awaiting_approval','dispatching','bob',NULL,3,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,8,1796040001000,'start_calls','dispatching','dispatching',NULL,1,4,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,9,1796040001000,'call_finished','dispatching','dispatching',NULL,1,4,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,10,1796040001000,'results_ready','dispatching','awaiting_model',NULL,1,4,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,11,1796040001000,'retry','awaiting_model','awaiting_model',NULL,NULL,5,2,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"worker_lost","message":"The process that drove this run was lost in awaiting_model (attempt 1 of 5)."}');
INSERT INTO "transition" VALUES(1,12,1796040001000,'request_tools','awaiting_model','dispatching',NULL,1,6,1,'76645658','scripted:test',20,0,3,NULL,NULL);
INSERT INTO "transition" VALUES(1,13,1796040001000,'results_ready','dispatching','awaiting_model',NULL,1,6,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,14,1796040001000,'cap','awaiting_model','capped',NULL,1,6,1,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"max_turns","message":"Stopped unfinished: the limit of 3 model calls (max_turns) was reached."}');
INSERT INTO "transition" VALUES(1,15,1796040001000,'top_up','capped','awaiting_model','bob',NULL,6,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,16,1796040001000,'answer','awaiting_model','done',NULL,1,7,1,'76645658','scripted:test',0,0,0,NULL,NULL);
CREATE TABLE worker (
	number INTEGER NOT NULL, 
	host VARCHAR NOT NULL, 
	boot VARCHAR NOT NULL, 
	namespace VARCHAR NOT NULL, 
	pid INTEGER NOT NULL, 
	started INTEGER NOT NULL, 
	seen_at BIGINT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "worker" VALUES(1,'old','b','n',1,1,1796040001000);
CREATE INDEX run_due ON run (number) WHERE owner IS NULL AND state IN ('awaiting_model', 'summarising', 'dispatching', 'awaiting_approval');
CREATE INDEX run_owned ON run (owner) WHERE owner IS NOT NULL;
CREATE INDEX approval_pending ON approval (run) WHERE status = 'pending';
COMMIT;
