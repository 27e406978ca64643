// The search: loads the shard that holds what was typed and ranks its names. site/search.py, Note [ Shards ], says how
// the shards are made. Shards are scripts, because a page opened from disk may not fetch.
"use strict";
const repobook = (() => {
  const base = document.documentElement.dataset.base;
  const shards = new Map();
  const loading = new Map();
  const manifest = { kinds: [], divided: new Set(), leaves: new Set(), short: {} };
  let paths = [];

  const load = (name) => {
    if (!loading.has(name)) {
      loading.set(name, new Promise((done) => {
        const script = document.createElement("script");
        script.src = `${base}search/${name}.js`;
        script.onload = script.onerror = () => done();
        document.head.append(script);
      }));
    }
    return loading.get(name);
  };
  const ready = () => Promise.all([load("manifest"), load("paths")]);

  const normal = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
  const fileName = (key) => {
    if (/^[\x00-\x7f]*$/.test(key)) return "s_" + key;
    return "u_" + [...new TextEncoder().encode(key)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  };
  // The shard where a word stands: down the tree as far as the word and the tree go; null where the tree ends before.
  const shardOf = (word) => {
    let key = "";
    for (const letter of word) {
      if (!manifest.divided.has(key)) return manifest.leaves.has(key) ? key : null;
      key += letter;
    }
    return manifest.divided.has(key) || manifest.leaves.has(key) ? key : null;
  };
  const slug = (name) => {
    const safe = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u.test(name) ? name : name.replace(/[^A-Za-z0-9_.~-]+/g, ".");
    return "d-" + safe.replace(/^\.+|\.+$/g, "");
  };
  // The name of a file can be too long for its page; then the page has a shorter one.
  const address = (path, kind, name, short = manifest.short[path] || path) => {
    const page = base + short.split("/").map(encodeURIComponent).join("/") + "_docs.html";
    return kind === "file" ? page : page + "#" + (kind === "note" ? "notes" : encodeURIComponent(slug(name)));
  };

  // How well a name answers a word: 0 the name itself, 1 but for case, 2 its beginning, 3 the beginning of a word in
  // it, 4 anywhere in its qualified name or path; null not at all.
  const starts = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g;
  const quality = (name, word, typed) => {
    if (name === typed) return 0;
    const whole = normal(name);
    if (whole === word) return 1;
    if (whole.startsWith(word)) return 2;
    for (const match of name.matchAll(starts)) {
      if (match.index && normal(name.slice(match.index)).startsWith(word)) return 3;
    }
    return null;
  };

  // Definitions for what was typed, best first. Several words must all be found; each may be a part of the qualified
  // name or of the path, and one must begin a word of the name.
  async function search(text, limit = 40) {
    const typed = text.trim().split(/\s+|::|(?<=\w)\.(?=\w)/).filter(Boolean);
    if (!typed.length) return [];
    await ready();
    const words = typed.map(normal);
    // `core.py` is one name; `Engine.run` is two. The text as a whole is looked for first.
    const tries = typed.length > 1 ? [[normal(text), text.trim(), []]] : [];
    words.forEach((word, at) => tries.push([word, typed[at], words.filter((other, place) => place !== at && other)]));
    const keys = tries.map(([word]) => shardOf(word));
    await Promise.all(keys.map((key) => key !== null && load(fileName(key))));
    const found = new Map();
    tries.forEach(([word, written, others], turn) => {
      if (keys[turn] === null) return;
      for (const row of shards.get(keys[turn]) || []) {
        const [name, total] = row;
        const fit = quality(name, word, written);
        if (fit === null) continue;
        let taken = 0;
        for (let at = 2; at < row.length && taken < limit; at += 4) {
          const path = paths[row[at + 1]];
          const qualified = row[at + 3] || name;
          if (others.length) {
            const around = normal(qualified + " " + path);
            if (!others.every((other) => around.includes(other))) continue;
          }
          taken += 1;
          const kind = manifest.kinds[row[at]];
          const rank = fit * 1000 - row[at + 2] + (others.length && turn < tries.length - 1 ? 500 : 0);
          const id = `${row[at + 1]} ${kind} ${qualified}`;
          const known = found.get(id);
          if (known && known.rank <= rank) continue;
          const more = total - (row.length - 2) / 4;
          found.set(id, { name: qualified, last: name, kind, path, rank, more: at === 2 ? more : 0 });
        }
      }
    });
    const order = (a, b) => a.rank - b.rank || a.name.length - b.name.length || (a.name < b.name ? -1 : 1)
      || (a.path < b.path ? -1 : 1);
    return [...found.values()].sort(order).slice(0, limit)
      .map((row) => ({ ...row, href: address(row.path, row.kind, row.name) }));
  }

  return {
    search, ready, address,
    manifest: (found) => {
      manifest.kinds = found.kinds;
      manifest.divided = new Set(found.divided);
      manifest.leaves = new Set(found.leaves);
      manifest.short = found.short;
    },
    paths: (folders) => {
      paths = folders.flatMap(([folder, names]) => (folder ? names.map((name) => `${folder}/${name}`) : names));
    },
    shard: (key, rows) => shards.set(key, rows),
  };
})();
