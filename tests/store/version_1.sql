-- A database as schema version 1 left it, with runs in several states. Never edited.
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
INSERT INTO "approval" VALUES(2,1,2,'approval','pending','2a9c5a2d26b87e0e732fa5bb6f96946ff47a32c7977443d1d3164325d473e358',0,1796115600000,4,1796720400000,NULL,NULL,NULL,NULL);
INSERT INTO "approval" VALUES(8,1,2,'in_doubt','approved','40b1ecb4f10de7cd83f5bb53be6a90eb95ae168f78a2b16a0407fe1d0bc9e130',0,1796040001000,5,NULL,1796040001000,6,'bob',NULL);
INSERT INTO "approval" VALUES(8,2,3,'approval','approved','988f7cdb8dd950ef2ad0cac6f527aefc043ad8f094d3cdb3c25491f9f2210972',0,1796040001000,5,1796644801000,1796040001000,7,'bob',NULL);
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
INSERT INTO "call" VALUES(2,1,'call_1','look','{"q":"Ann"}',NULL,'ok','{"ok":true,"result":"she is owed 5"}',2,2,NULL,NULL,3,1,7,NULL);
INSERT INTO "call" VALUES(2,2,'call_2','wire','{"amount":5}',NULL,'waiting',NULL,2,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "call" VALUES(4,1,'call_1','look','{"q":"y"}',NULL,'ok','{"ok":true,"result":"yyy"}',2,2,NULL,NULL,3,1,7,NULL);
INSERT INTO "call" VALUES(5,1,'call_1','look','{"q":"z"}',NULL,'running',NULL,2,2,NULL,NULL,NULL,1,NULL,NULL);
INSERT INTO "call" VALUES(8,1,'call_1','look','{"q":"x"}',NULL,'ok','{"ok":true,"result":"found"}',2,2,NULL,NULL,3,1,7,NULL);
INSERT INTO "call" VALUES(8,2,'call_2','pay','{"amount":5}',NULL,'ok','{"ok":true,"result":"paid"}',2,2,8,NULL,9,4,7,NULL);
INSERT INTO "call" VALUES(8,3,'call_3','wire','{"amount":6}','{"amount":4}','ok','{"ok":true,"result":"wired","edited_arguments":{"amount":4}}',2,8,NULL,NULL,10,4,7,NULL);
INSERT INTO "call" VALUES(8,4,'call_4','look','{"q":"y"}',NULL,'ok','{"ok":true,"result":"seen"}',12,12,NULL,NULL,13,6,7,NULL);
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
INSERT INTO "message" VALUES(1,1,1,'user','What is x?',NULL,NULL,NULL);
INSERT INTO "message" VALUES(1,2,2,'assistant','Looking.','It is cheap.',NULL,NULL);
INSERT INTO "message" VALUES(1,3,4,'assistant','It is x.',NULL,NULL,NULL);
INSERT INTO "message" VALUES(2,1,1,'user','Pay Ann 5',NULL,NULL,NULL);
INSERT INTO "message" VALUES(2,2,2,'assistant','',NULL,NULL,NULL);
INSERT INTO "message" VALUES(3,1,1,'user','Fail',NULL,NULL,NULL);
INSERT INTO "message" VALUES(4,1,1,'user','Go on and on',NULL,NULL,NULL);
INSERT INTO "message" VALUES(4,2,2,'assistant','',NULL,NULL,NULL);
INSERT INTO "message" VALUES(5,1,1,'user','Half way',NULL,NULL,NULL);
INSERT INTO "message" VALUES(5,2,2,'assistant','',NULL,NULL,NULL);
INSERT INTO "message" VALUES(6,1,1,'user','Not begun',NULL,NULL,NULL);
INSERT INTO "message" VALUES(7,1,1,'user','Never mind',NULL,NULL,NULL);
INSERT INTO "message" VALUES(8,1,1,'user','Pay Ann',NULL,NULL,NULL);
INSERT INTO "message" VALUES(8,2,2,'assistant','Looking.',NULL,NULL,NULL);
INSERT INTO "message" VALUES(8,3,12,'assistant','',NULL,NULL,NULL);
INSERT INTO "message" VALUES(8,4,16,'assistant','Paid.',NULL,NULL,NULL);
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
INSERT INTO "note" VALUES(1,1,3,'one note');
INSERT INTO "note" VALUES(8,1,10,'a note');
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
INSERT INTO "run" VALUES(1,'01M8RDA4M0X0AP1FWEYZHQBXRS','w','done','ann',NULL,'park','done',4,1,1,NULL,NULL,NULL,10,50,2,1,0,0,0,NULL,0,'76645658','It is x.',NULL,NULL,1796115600000,1796115600000,1796115600000);
INSERT INTO "run" VALUES(2,'01M8RDA4M0X0AP1FWEYZHQBXRT','w','parked',NULL,NULL,'park','awaiting_approval',4,1,1,1796720400000,NULL,NULL,10,50,1,2,0,0,0,NULL,0,'76645658',NULL,NULL,NULL,1796115600000,1796115600000,NULL);
INSERT INTO "run" VALUES(3,'01M8RDA4M0X0AP1FWEYZHQBXRV','w','failed',NULL,NULL,'park','failed',2,1,1,NULL,NULL,NULL,10,50,1,0,0,0,0,0,0,'76645658',NULL,'{"type":"authentication","message":"401 The key is not valid."}',NULL,1796115600000,1796115600000,1796115600000);
INSERT INTO "run" VALUES(4,'01M8RDA4M0X0AP1FWEYZHQBXRW','w','capped',NULL,NULL,'park','capped',4,1,1,NULL,NULL,NULL,1,50,1,1,0,0,0,NULL,0,'76645658','Stopped unfinished: the limit of 1 model call (max_turns) was reached.','{"type":"max_turns","message":"Stopped unfinished: the limit of 1 model call (max_turns) was reached."}',NULL,1796115600000,1796115600000,1796115600000);
INSERT INTO "run" VALUES(5,'01M8RDA4M0X0AP1FWEYZHQBXRX','w','stuck',NULL,NULL,'park','dispatching',2,1,1,NULL,1,1796115630000,10,50,1,1,0,0,0,NULL,0,'76645658',NULL,NULL,NULL,1796115600000,1796115600000,NULL);
INSERT INTO "run" VALUES(6,'01M8RDA4M0X0AP1FWEYZHQBXRY','w','waiting',NULL,NULL,'park','awaiting_model',1,0,1,NULL,NULL,NULL,10,50,0,0,0,0,0,0,1,'76645658',NULL,NULL,NULL,1796115600000,1796115600000,NULL);
INSERT INTO "run" VALUES(7,'01M8RDA4M0X0AP1FWEYZHQBXRZ','w','cancelled',NULL,NULL,'park','cancelled',2,0,1,NULL,NULL,NULL,10,50,0,0,0,0,0,0,0,'76645658',NULL,'{"type":"cancelled","message":"Cancelled by ann."}',NULL,1796115600000,1796115600000,1796115600000);
INSERT INTO "run" VALUES(8,'01M8P570G0EZJWNT072NVBRYNW','w','long','ann',NULL,'park','done',16,7,1,NULL,NULL,NULL,5,50,4,4,30,1,5,NULL,0,'76645658','Paid.',NULL,NULL,1796040000000,1796040001000,1796040001000);
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
INSERT INTO "transition" VALUES(1,1,1796115600000,'start',NULL,'awaiting_model','ann',NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,2,1796115600000,'request_tools','awaiting_model','dispatching',NULL,1,1,1,'76645658','scripted:test',0,0,0,NULL,NULL);
INSERT INTO "transition" VALUES(1,3,1796115600000,'results_ready','dispatching','awaiting_model',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(1,4,1796115600000,'answer','awaiting_model','done',NULL,1,1,1,'76645658','scripted:test',0,0,0,NULL,NULL);
INSERT INTO "transition" VALUES(2,1,1796115600000,'start',NULL,'awaiting_model',NULL,NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(2,2,1796115600000,'request_tools','awaiting_model','dispatching',NULL,1,1,1,'76645658','scripted:test',0,0,0,NULL,NULL);
INSERT INTO "transition" VALUES(2,3,1796115600000,'call_finished','dispatching','dispatching',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(2,4,1796115600000,'ask','dispatching','awaiting_approval',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(3,1,1796115600000,'start',NULL,'awaiting_model',NULL,NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(3,2,1796115600000,'fail','awaiting_model','failed',NULL,1,1,1,'76645658','scripted:test',NULL,NULL,NULL,NULL,'{"type":"authentication","message":"401 The key is not valid."}');
INSERT INTO "transition" VALUES(4,1,1796115600000,'start',NULL,'awaiting_model',NULL,NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(4,2,1796115600000,'request_tools','awaiting_model','dispatching',NULL,1,1,1,'76645658','scripted:test',0,0,0,NULL,NULL);
INSERT INTO "transition" VALUES(4,3,1796115600000,'results_ready','dispatching','awaiting_model',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(4,4,1796115600000,'cap','awaiting_model','capped',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"max_turns","message":"Stopped unfinished: the limit of 1 model call (max_turns) was reached."}');
INSERT INTO "transition" VALUES(5,1,1796115600000,'start',NULL,'awaiting_model',NULL,NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(5,2,1796115600000,'request_tools','awaiting_model','dispatching',NULL,1,1,1,'76645658','scripted:test',0,0,0,NULL,NULL);
INSERT INTO "transition" VALUES(6,1,1796115600000,'start',NULL,'awaiting_model',NULL,NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(7,1,1796115600000,'start',NULL,'awaiting_model',NULL,NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(7,2,1796115600000,'cancel','awaiting_model','cancelled','ann',NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"cancelled","message":"Cancelled by ann."}');
INSERT INTO "transition" VALUES(8,1,1796040000000,'start',NULL,'awaiting_model','ann',NULL,0,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,2,1796040000000,'request_tools','awaiting_model','dispatching',NULL,1,1,1,'76645658','scripted:test',10,1,2,1000000000,NULL);
INSERT INTO "transition" VALUES(8,3,1796040001000,'call_finished','dispatching','dispatching',NULL,1,1,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,4,1796040001000,'retry','dispatching','dispatching',NULL,NULL,2,2,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"worker_lost","message":"The process that drove this run was lost in dispatching (attempt 1 of 5)."}');
INSERT INTO "transition" VALUES(8,5,1796040001000,'ask','dispatching','awaiting_approval',NULL,1,3,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,6,1796040001000,'decision','awaiting_approval','awaiting_approval','bob',NULL,3,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,7,1796040001000,'decided','awaiting_approval','dispatching','bob',NULL,3,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,8,1796040001000,'start_calls','dispatching','dispatching',NULL,1,4,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,9,1796040001000,'call_finished','dispatching','dispatching',NULL,1,4,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,10,1796040001000,'results_ready','dispatching','awaiting_model',NULL,1,4,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,11,1796040001000,'retry','awaiting_model','awaiting_model',NULL,NULL,5,2,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"worker_lost","message":"The process that drove this run was lost in awaiting_model (attempt 1 of 5)."}');
INSERT INTO "transition" VALUES(8,12,1796040001000,'request_tools','awaiting_model','dispatching',NULL,1,6,1,'76645658','scripted:test',20,0,3,NULL,NULL);
INSERT INTO "transition" VALUES(8,13,1796040001000,'results_ready','dispatching','awaiting_model',NULL,1,6,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,14,1796040001000,'cap','awaiting_model','capped',NULL,1,6,1,'76645658',NULL,NULL,NULL,NULL,NULL,'{"type":"max_turns","message":"Stopped unfinished: the limit of 3 model calls (max_turns) was reached."}');
INSERT INTO "transition" VALUES(8,15,1796040001000,'top_up','capped','awaiting_model','bob',NULL,6,1,'76645658',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transition" VALUES(8,16,1796040001000,'answer','awaiting_model','done',NULL,1,7,1,'76645658','scripted:test',0,0,0,NULL,NULL);
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
INSERT INTO "worker" VALUES(1,'machine','a-boot','a-namespace',4711,1,1796115600000);
CREATE INDEX run_due ON run (number) WHERE owner IS NULL AND state IN ('awaiting_model', 'summarising', 'dispatching', 'awaiting_approval');
CREATE INDEX run_owned ON run (owner) WHERE owner IS NOT NULL;
CREATE INDEX approval_pending ON approval (run) WHERE status = 'pending';
CREATE VIEW run_overview AS 
        SELECT r.id, r.workflow, r.state, r.key, r.user, r.model, m.text AS input, r.answer,
            r.error ->> 'type' AS error, r.error ->> 'message' AS error_message,
            r.turns, r.max_turns, r.tool_calls, r.max_tool_calls, r.input_tokens,
            r.cached_tokens, r.output_tokens, r.cost / 1e12 AS cost, r.seq, r.fence,
            r.attempt, strftime('%Y-%m-%dT%H:%M:%fZ', r.not_before / 1000.0, 'unixepoch') AS not_before,
            w.host || ':' || w.pid AS owner, strftime('%Y-%m-%dT%H:%M:%fZ', r.lease_until / 1000.0, 'unixepoch') AS lease_until,
            strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created_at, strftime('%Y-%m-%dT%H:%M:%fZ', r.updated_at / 1000.0, 'unixepoch') AS updated_at,
            strftime('%Y-%m-%dT%H:%M:%fZ', r.finished_at / 1000.0, 'unixepoch') AS finished_at
        FROM run r
        LEFT JOIN message m ON m.run = r.number AND m.number = 1
        LEFT JOIN worker w ON w.number = r.owner;
CREATE VIEW run_timeline AS 
        SELECT r.id AS run, t.seq, strftime('%Y-%m-%dT%H:%M:%fZ', t.at / 1000.0, 'unixepoch') AS at, t.trigger, t.source, t.dest,
            coalesce(t.by, w.host || ':' || w.pid) AS by, t.fence, t.attempt, t.model,
            t.input_tokens, t.cached_tokens, t.output_tokens, t.cost / 1e12 AS cost,
            t.error ->> 'type' AS error, t.error ->> 'message' AS error_message
        FROM transition t
        JOIN run r ON r.number = t.run
        LEFT JOIN worker w ON w.number = t.worker;
CREATE VIEW transcript AS 
        SELECT r.id AS run, m.seq, m.number AS message, 0 AS call, m.role, m.text, m.reasoning,
            NULL AS tool, NULL AS arguments, NULL AS status
        FROM message m JOIN run r ON r.number = m.run
        UNION ALL
        SELECT r.id, c.requested_seq, m.number, c.number, 'tool', c.outcome, NULL,
            c.tool, coalesce(c.edited, c.arguments), c.status
        FROM call c
        JOIN run r ON r.number = c.run
        LEFT JOIN message m
            ON m.run = c.run AND m.seq = c.requested_seq AND m.role = 'assistant'
        ORDER BY 1, 2, 3, 4;
CREATE VIEW pending_approval AS 
        SELECT r.id || '-q' || a.number AS id, r.id AS run, r.id || '-' || c.number AS call,
            r.workflow, a.kind, c.tool, coalesce(c.edited, c.arguments) AS arguments,
            coalesce(m.reasoning, nullif(m.text, '')) AS reasoning,
            strftime('%Y-%m-%dT%H:%M:%fZ', a.asked_at / 1000.0, 'unixepoch') AS asked_at,
            strftime('%Y-%m-%dT%H:%M:%fZ', a.expires_at / 1000.0, 'unixepoch') AS expires_at
        FROM approval a
        JOIN run r ON r.number = a.run
        JOIN call c ON c.run = a.run AND c.number = a.call
        LEFT JOIN message m
            ON m.run = a.run AND m.seq = c.requested_seq AND m.role = 'assistant'
        WHERE a.status = 'pending';
COMMIT;
