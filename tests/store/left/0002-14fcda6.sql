BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE audit (
	seq INTEGER NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	actor VARCHAR(255) NOT NULL, 
	action VARCHAR(64) NOT NULL, 
	target VARCHAR(512) NOT NULL, 
	outcome VARCHAR(64) NOT NULL, 
	detail TEXT NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "audit" VALUES(1,'2026-11-21T05:00:00.000000+00:00','U1','raise','a/b','allowed','{"n": 1}','0000000000000000000000000000000000000000000000000000000000000000','9e1ee02b0a21e458b49612b32508bad61289f9485cbd41def702159ee0b91c11');
CREATE TABLE changes (
	id VARCHAR(64) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	target VARCHAR(512) NOT NULL, 
	uid VARCHAR(64) NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	record TEXT NOT NULL, 
	trouble TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "changes" VALUES('c1','lab','hami-system/hami-scheduler','u','raised','{"v":1,"id":"c1","target":"hami-system/hami-scheduler","flag":"v","container":"vgpu-scheduler-extender","field":"command","from":["scheduler","-v=4"],"to":["scheduler","-v=5"],"old":"4","new":"5","means":"patch","raised_at":"2026-11-21T05:00:00Z","at":"2026-11-21T05:10:00Z","by":"U1"}','',1795237200.0,1795237200.0);
CREATE TABLE outbox (
	id INTEGER NOT NULL, 
	channel VARCHAR(64) NOT NULL, 
	"key" VARCHAR(255) NOT NULL, 
	thread_ts VARCHAR(32) NOT NULL, 
	content TEXT NOT NULL, 
	severity INTEGER NOT NULL, 
	update_ts VARCHAR(32) NOT NULL, 
	queued_at DOUBLE NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	version INTEGER NOT NULL, 
	tried_version INTEGER NOT NULL, 
	sent_version INTEGER NOT NULL, 
	owner VARCHAR(64) NOT NULL, 
	lease_until DOUBLE NOT NULL, 
	claimed_at DOUBLE NOT NULL, 
	sent_at DOUBLE NOT NULL, 
	posted_channel VARCHAR(64) NOT NULL, 
	posted_ts VARCHAR(32) NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (channel, "key")
);
INSERT INTO "outbox" VALUES(7000,'C1','a','','{"text": "kept"}',1,'',1795237200.0,'done',1,1,1,'',1795237200.0,1795237200.0,1795237200.0,'','','');
CREATE TABLE outbox_files (
	row_id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	about TEXT NOT NULL, 
	content BLOB NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	file_id VARCHAR(32) NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (row_id, digest), 
	FOREIGN KEY(row_id) REFERENCES outbox (id) ON DELETE CASCADE
);
INSERT INTO "outbox_files" VALUES(7000,'d',0,'{}',X'006B65707427','new','','');
CREATE TABLE seen (
	"key" VARCHAR(255) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	payload TEXT NOT NULL, 
	tries INTEGER NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "seen" VALUES('Ev1','done',4000000000.0,'',1);
CREATE TABLE threads (
	channel VARCHAR(64) NOT NULL, 
	thread_ts VARCHAR(255) NOT NULL, 
	words TEXT NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	at DOUBLE NOT NULL, 
	PRIMARY KEY (channel, thread_ts)
);
INSERT INTO "threads" VALUES('C1','1.0','gpus','lab',4000000000.0);
CREATE INDEX outbox_by_turn ON outbox (channel, state, severity, queued_at);
CREATE INDEX outbox_by_time ON outbox (channel, sent_at);
CREATE INDEX outbox_by_state ON outbox (state);
CREATE INDEX outbox_by_place ON outbox (posted_channel, posted_ts);
CREATE INDEX changes_by_state ON changes (cluster, state);
COMMIT;
