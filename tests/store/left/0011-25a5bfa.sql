BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0011');
CREATE TABLE alerts (
	source VARCHAR(16) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	starts_at VARCHAR(32) NOT NULL, 
	ends_at VARCHAR(32) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	level VARCHAR(16) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	namespace VARCHAR(255) NOT NULL, 
	pod VARCHAR(255) NOT NULL, 
	node VARCHAR(255) NOT NULL, 
	severity VARCHAR(64) NOT NULL, 
	runbook VARCHAR(500) NOT NULL, 
	labels TEXT NOT NULL, 
	annotations TEXT NOT NULL, 
	incident VARCHAR(32) NOT NULL, 
	received_at DOUBLE NOT NULL, 
	heard_at DOUBLE NOT NULL, 
	changed_at DOUBLE NOT NULL, 
	cut INTEGER DEFAULT '0' NOT NULL, 
	gpus INTEGER, 
	pod_created_at DOUBLE DEFAULT '0' NOT NULL, 
	PRIMARY KEY (source, fingerprint, number)
);
INSERT INTO "alerts" VALUES('alertmanager','f1',1,'resolved','2026-11-21T03:00:00Z','2026-11-21T03:30:00Z','HamiPodPending','pod','lab','ml','p','','critical','https://runbooks.example/p','{"pod": "p"}','{}','i1',1795237200.0,1795237200.0,1795237200.0,0,2,0.0);
INSERT INTO "alerts" VALUES('alertmanager','f1',2,'firing','2026-11-21T04:00:00Z','','HamiPodPending','pod','lab','ml','p','','critical','https://runbooks.example/p','{"pod": "p"}','{}','i1',1795237200.0,1795237200.0,1795237200.0,0,2,0.0);
INSERT INTO "alerts" VALUES('alertmanager','f2',1,'resolved','2026-11-21T04:00:00Z','2026-11-21T04:30:00Z','HamiPodPending','pod','lab','ml','p','','critical','https://runbooks.example/p','{"pod": "p"}','{}','i1',1795237200.0,1795237200.0,1795237200.0,0,2,0.0);
CREATE TABLE approvals (
	id VARCHAR(64) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	target VARCHAR(512) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	requester VARCHAR(64) NOT NULL, 
	channel VARCHAR(64) NOT NULL, 
	request TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	decided_by VARCHAR(64) NOT NULL, 
	reason TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	decided_at DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "approvals" VALUES('a1','lab','hami-system/hami-scheduler','d','U1','C1','{}','pending','','',1795237200.0,4000000000.0,0.0);
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
CREATE TABLE digest_runs (
	digest VARCHAR(32) NOT NULL, 
	wall VARCHAR(16) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	at DOUBLE NOT NULL, 
	claimed_until DOUBLE NOT NULL, 
	figures TEXT NOT NULL, 
	PRIMARY KEY (digest, wall)
);
INSERT INTO "digest_runs" VALUES('g1','2026-11-20 09:05','posted',1795237200.0,1795237200.0,'{"pending": "3"}');
CREATE TABLE digests (
	id VARCHAR(32) NOT NULL, 
	channel VARCHAR(64) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	schedule VARCHAR(255) NOT NULL, 
	"by" VARCHAR(64) NOT NULL, 
	since DOUBLE NOT NULL, 
	stopped INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "digests" VALUES('g1','C1','lab','["5 9 * * mon,tue,wed,thu,fri","Asia/Shanghai"]','U1',1795237200.0,0);
INSERT INTO "digests" VALUES('g2','C1','lab','["5 9 * * *","Asia/Shanghai"]','U1',1795237200.0,0);
CREATE TABLE duties (
	name VARCHAR(64) NOT NULL, 
	owner VARCHAR(255) NOT NULL, 
	until DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "duties" VALUES('oncall','one',1795237200.0);
CREATE TABLE facts (
	"key" VARCHAR(255) NOT NULL, 
	value TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "facts" VALUES('k','v',1795237200.0);
CREATE TABLE incident_events (
	incident VARCHAR(32) NOT NULL, 
	seq INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	turn VARCHAR(16) NOT NULL, 
	"by" VARCHAR(64) NOT NULL, 
	detail TEXT NOT NULL, 
	told INTEGER NOT NULL, 
	PRIMARY KEY (incident, seq)
);
INSERT INTO "incident_events" VALUES('i1',1,1795237200.0,'opened','','',1);
CREATE TABLE incidents (
	id VARCHAR(32) NOT NULL, 
	open_key VARCHAR(320), 
	cluster VARCHAR(255) NOT NULL, 
	cause TEXT NOT NULL, 
	machine TEXT NOT NULL, 
	channel VARCHAR(64) NOT NULL, 
	thread_ts VARCHAR(32) NOT NULL, 
	proven INTEGER NOT NULL, 
	shown VARCHAR(64) NOT NULL, 
	shown_at DOUBLE NOT NULL, 
	created_at DOUBLE NOT NULL, 
	ended_at DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (open_key)
);
INSERT INTO "incidents" VALUES('i1','lab s','lab','{"signature":"s","code":"node-cordoned","claim":"kept","severity":"critical","subject":"ml/p","nodes":[],"why_not":"","labels":[],"graph":"","step":null}','{"state":"muted","since":1795237100.0,"owner":"U1","quiet_since":0.0,"muted_until":{"at":0.0,"node":""},"called":[],"called_at":0.0,"ended":false,"soon":false,"severity":"","pods":0,"page":0,"paged":[]}','C1','1.1',1,'d',1795237200.0,1795237100.0,0.0);
INSERT INTO "incidents" VALUES('i2',NULL,'lab','{"signature":"s","code":"node-cordoned","claim":"kept","severity":"critical","subject":"ml/p","nodes":[],"why_not":"","labels":[],"graph":"","step":null}','{"state":"resolved","since":1795237150.0,"owner":"","quiet_since":0.0,"muted_until":{"at":0.0,"node":""},"called":["U1"],"called_at":0.0,"ended":true,"soon":false,"severity":"","pods":0,"page":0,"paged":[]}','C1','1.2',1,'d',1795237200.0,1795237100.0,1795237150.0);
CREATE TABLE marks (
	name VARCHAR(255) NOT NULL, 
	at DOUBLE NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "marks" VALUES('m',1795237200.0,'t');
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
CREATE TABLE outbreaks (
	incident VARCHAR(32) NOT NULL, 
	source VARCHAR(16) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	starts_at VARCHAR(32) NOT NULL, 
	ends_at VARCHAR(32) NOT NULL, 
	namespace VARCHAR(255) NOT NULL, 
	pod VARCHAR(255) NOT NULL, 
	received_at DOUBLE NOT NULL, 
	heard_at DOUBLE NOT NULL, 
	changed_at DOUBLE NOT NULL, 
	gpus INTEGER, 
	pod_created_at DOUBLE NOT NULL, 
	PRIMARY KEY (incident, source, fingerprint, number)
);
INSERT INTO "outbreaks" VALUES('i1','alertmanager','f1',1,'resolved','2026-11-20T01:00:00Z','2026-11-20T02:00:00Z','ml','p',1795228200.0,1795229200.0,1795231200.0,2,0.0);
CREATE TABLE pages (
	id INTEGER NOT NULL, 
	incident VARCHAR(32) NOT NULL, 
	service VARCHAR(16) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	action VARCHAR(16) NOT NULL, 
	"by" VARCHAR(64) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	queued_at DOUBLE NOT NULL, 
	tries INTEGER NOT NULL, 
	next_try_at DOUBLE NOT NULL, 
	told INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "pages" VALUES(7000,'i1','pagerduty','k','trigger','','done',1795237200.0,1,1795237200.0,0);
CREATE TABLE profiles (
	id VARCHAR(64) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	target VARCHAR(1024) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	version VARCHAR(255) NOT NULL, 
	taken_at DOUBLE NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	seconds DOUBLE NOT NULL, 
	size INTEGER NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "profiles" VALUES('p1','lab','http://hami-system/hami-scheduler-0:6060','cpu','v2.7.1',1795237200.0,1797829200.0,10.0,3,X'1F8B27');
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
CREATE INDEX outbox_by_time ON outbox (channel, sent_at);
CREATE INDEX outbox_by_state ON outbox (state);
CREATE INDEX outbox_by_turn ON outbox (channel, state, severity, queued_at);
CREATE INDEX outbox_by_place ON outbox (posted_channel, posted_ts);
CREATE INDEX facts_by_time ON facts (at);
CREATE INDEX changes_by_state ON changes (cluster, state);
CREATE INDEX approvals_by_state ON approvals (state, expires_at);
CREATE INDEX profiles_by_time ON profiles (taken_at);
CREATE INDEX alerts_by_incident ON alerts (incident, status);
CREATE INDEX alerts_by_status ON alerts (source, status, heard_at);
CREATE INDEX incidents_by_thread ON incidents (thread_ts, channel);
CREATE INDEX incidents_by_end ON incidents (ended_at);
CREATE INDEX incident_events_untold ON incident_events (told, incident);
CREATE INDEX pages_by_turn ON pages (state, service);
CREATE INDEX pages_by_key ON pages ("key", service);
CREATE INDEX digests_by_channel ON digests (stopped, channel);
COMMIT;
