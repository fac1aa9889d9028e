BEGIN TRANSACTION;
PRAGMA user_version = 1;
CREATE TABLE chats (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL DEFAULT '',
            target TEXT,
            draft TEXT,
            system TEXT NOT NULL DEFAULT '',
            settings TEXT NOT NULL DEFAULT '{}',
            head INTEGER REFERENCES messages (id) ON DELETE SET NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL
        );
INSERT INTO "chats" VALUES(1,'Merging lists','qwen2.5-coder-1.5b',NULL,'Be brief.','{"temperature": 0.5}',4,1700000000.0,1700000100.0);
CREATE TABLE messages (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
            parent INTEGER REFERENCES messages (id) DEFERRABLE INITIALLY DEFERRED,
            role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
            text TEXT NOT NULL DEFAULT '',
            thoughts TEXT NOT NULL DEFAULT '',
            created REAL NOT NULL,
            started TEXT,
            reason TEXT,
            stats TEXT
        );
INSERT INTO "messages" VALUES(1,1,NULL,'user','Write merge','',1700000001.0,NULL,NULL,NULL);
INSERT INTO "messages" VALUES(2,1,1,'assistant','def merge(a, b):
	é漢👩‍👩‍👧[2J[/red]<b>&','',1700000002.0,'{"target": "target.gguf", "draft": null, "speculate": "auto", "verify": "rejection", "reproducible": false, "context": 512, "threads": 2, "seed": 1, "prompt_tokens": 10}','end_of_text','{"prompt_tokens": 10, "prompt_reused": 0, "ttft_s": 0.01, "tokens": 10, "decode_s": 0.06, "tokens_per_s": 150.0, "itl_ms_p50": 10.0, "itl_ms_p95": 10.0, "plain_tokens_per_s": 50.0, "baseline": "measured", "speedup": 3.0, "cycles": 6, "proposed": 6, "judged": 5, "accepted": 3, "resampled": 2, "bonus": 1, "plain": 4, "acceptance_rate": 0.6, "tokens_per_cycle": 1.5, "draft_s": 0.003, "verify_s": 0.054, "overhead_s": 0.0}');
INSERT INTO "messages" VALUES(3,1,2,'user','Again, with generators','',1700000003.0,NULL,NULL,NULL);
INSERT INTO "messages" VALUES(4,1,3,'assistant','cut off by a crash','',1700000004.0,NULL,NULL,NULL);
CREATE TABLE provenance (
            message INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            data BLOB NOT NULL
        );
INSERT INTO "provenance" VALUES(2,X'789C6D91DD6E83300C855F65CAD52EAC2901DAAEDCF020538558303F2B1014C2B4AAEABBCF6E524AD7291C45F8B34FECE42C2A637B912A106D29D20F0511C490C006B6B08377D8839207100E7F1C518E2B5A316545C425A8846963E6BAE104094F8BF8B11DCA2BF4B57C868711C1D2169543BB7075F5BE737DD21DFEA1A1433E9A7B9694B9521C949036A42D6927B9116D06674D473537E349A4E7E508F5607D6F4C74C61CE7518418ED8319F069F3902A476B463321CFCC867E16B50279B84FD1A3ADF1956AE1E533CB685FBE8C8DBEE6B20E36D1CAA6D01A4717805A5D34F6ADF3717E217F5FEA364ADE4F3CE31B7990E44AF44F49DF68DBEAE4B3F614FD4794D5174E37798743ED9AC7073F5C2EBF64679832');
CREATE INDEX messages_of_chat ON messages (chat);
CREATE INDEX messages_of_parent ON messages (parent);
CREATE INDEX chats_by_update ON chats (updated);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('chats',1);
INSERT INTO "sqlite_sequence" VALUES('messages',4);
COMMIT;
