"""The tables of the model. docs/design.md describes them; `VERSION` changes whenever a reader or table does.

A symbol's id is `file << 20 | local index`, so its file needs no join and the symbols of a file are one range of the
primary key. Local index 0 is the file itself.
"""

VERSION = "24"
FILE_SHIFT = 20

TABLES = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files(
  id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, folder TEXT NOT NULL, language TEXT NOT NULL, size INT, mtime INT,
  digest BLOB, status TEXT NOT NULL, lines INT, code INT, comment INT, errors INT, test INT, purpose TEXT, exports TEXT,
  layer INT NOT NULL DEFAULT 0, cycle INT NOT NULL DEFAULT 0, origin TEXT NOT NULL DEFAULT '',
  locals TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS symbols(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, line INT, end_line INT, parent INT, qualified TEXT,
  signature TEXT, doc TEXT, declaration INT, bases TEXT, complexity INT, nesting INT, twin INT,
  uses INT NOT NULL DEFAULT 0, parts TEXT NOT NULL DEFAULT '', internal INT NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS refs(file INT NOT NULL, name TEXT NOT NULL, qualifier TEXT NOT NULL, places BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS imports(
  file INT NOT NULL, line INT, kind TEXT, module TEXT, name TEXT, alias TEXT, local INT, target INT, symbol INT);
CREATE TABLE IF NOT EXISTS findings(file INT NOT NULL, line INT, section TEXT, rule TEXT, detail TEXT, local INT);
CREATE TABLE IF NOT EXISTS remarks(file INT NOT NULL, line INT, kind TEXT, title TEXT, text TEXT, local INT);
CREATE TABLE IF NOT EXISTS bindings(
  file INT NOT NULL, line INT, kind TEXT, exposed TEXT, target TEXT, owner TEXT, local INT);
CREATE TABLE IF NOT EXISTS words(file INT NOT NULL, term TEXT NOT NULL, count INT, line INT);
CREATE TABLE IF NOT EXISTS terms(term TEXT PRIMARY KEY, files INT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS macros(file INT NOT NULL, name TEXT NOT NULL, parameters TEXT, body TEXT);
CREATE TABLE IF NOT EXISTS edges(
  src INT NOT NULL, dst INT NOT NULL, kind INT, certainty INT, line INT, count INT, PRIMARY KEY(src, dst)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(
  name, parts, doc, content='symbols', content_rowid='id', tokenize="unicode61 tokenchars '_'", detail='column');
CREATE TABLE IF NOT EXISTS history(
  file INTEGER PRIMARY KEY, commits INT, first INT, last INT, author TEXT, authors TEXT, companions TEXT);
CREATE TABLE IF NOT EXISTS pages(path TEXT PRIMARY KEY, file INT, digest BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site(name TEXT PRIMARY KEY, stamp TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending(page TEXT PRIMARY KEY) WITHOUT ROWID;
"""

# Made after the rows of a cold build, because sorting once is quicker than inserting in order of the key.
INDEXES = """
CREATE INDEX IF NOT EXISTS symbols_name ON symbols(name);
CREATE INDEX IF NOT EXISTS symbols_twin ON symbols(twin, kind, qualified) WHERE twin IS NOT NULL;
CREATE INDEX IF NOT EXISTS symbols_uses ON symbols(uses, kind, qualified, twin) WHERE uses>0;
CREATE INDEX IF NOT EXISTS refs_name ON refs(name);
CREATE INDEX IF NOT EXISTS refs_file ON refs(file);
CREATE INDEX IF NOT EXISTS imports_file ON imports(file);
CREATE INDEX IF NOT EXISTS imports_target ON imports(target, file);
CREATE INDEX IF NOT EXISTS findings_file ON findings(file);
CREATE INDEX IF NOT EXISTS remarks_file ON remarks(file);
CREATE INDEX IF NOT EXISTS remarks_title ON remarks(title COLLATE NOCASE) WHERE kind IN ('note', 'note-reference');
CREATE INDEX IF NOT EXISTS bindings_file ON bindings(file);
CREATE INDEX IF NOT EXISTS bindings_exposed ON bindings(exposed);
CREATE INDEX IF NOT EXISTS bindings_target ON bindings(target);
CREATE INDEX IF NOT EXISTS words_file ON words(file);
CREATE INDEX IF NOT EXISTS words_term ON words(term);
CREATE INDEX IF NOT EXISTS macros_file ON macros(file);
CREATE INDEX IF NOT EXISTS edges_dst ON edges(dst, certainty, kind, src, line, count);
"""

# Kinds of edges.
CALLS, USES, INHERITS, BINDS, OVERRIDES = 1, 2, 3, 4, 5
EDGE_NAMES = {CALLS: "calls", USES: "uses", INHERITS: "inherits", BINDS: "binds", OVERRIDES: "overrides"}

# Certainty: one definition follows from the scopes and imports; the only definition of that name in the tree;
# one of several that could be meant.
CERTAIN, LIKELY, CANDIDATE = 3, 2, 1
# Certainty of an edge that is no reference: a method overrides another.
NO_USE = 0
CERTAINTY_NAMES = {CERTAIN: "certain", LIKELY: "likely", CANDIDATE: "candidate"}
