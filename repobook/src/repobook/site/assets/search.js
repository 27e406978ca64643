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

  // Misspelled words. `errors` counts the letters of a word that differ from the beginning of a text, are missing, are
  // too many or are exchanged with their neighbour; anything above `most` is too many.
  const allowed = (word) => (word.length < 4 ? 0 : word.length < 8 ? 1 : 2);
  const errors = (word, text, most) => {
    const width = Math.min(text.length, word.length + most);
    let above = [];
    let before = [];
    let row = Array.from({ length: width + 1 }, (_, place) => place);
    for (let at = 1; at <= word.length; at += 1) {
      [above, before, row] = [before, row, [at]];
      let least = at;
      for (let place = 1; place <= width; place += 1) {
        let cost = Math.min(before[place] + 1, row[place - 1] + 1,
          before[place - 1] + (word[at - 1] === text[place - 1] ? 0 : 1));
        if (at > 1 && place > 1 && word[at - 1] === text[place - 2] && word[at - 2] === text[place - 1]) {
          cost = Math.min(cost, above[place - 2] + 1);
        }
        row.push(cost);
        least = Math.min(least, cost);
      }
      if (least > most) return most + 1;
    }
    return Math.min(...row);
  };
  // The shards where a misspelled word may stand: one error at most in the letters that choose a shard.
  // An inner node holds the names that it spells itself.
  const spelled = (word) => [...manifest.divided].filter((key) => Math.abs(key.length - word.length) <= 1);
  const around = (word) => [...manifest.leaves, ...spelled(word)].map((key) => [errors(key, word, 1), key[0] === word[0] ? 0 : 1, key])
    .filter(([count]) => count <= 1).sort((a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : 1))
    .map(([, , key]) => key).slice(0, 48);
  // Names with a word like the one that was typed, fewest errors first.
  async function similar(word, others, limit) {
    const most = allowed(word);
    const found = new Map();
    if (!most) return found;
    const keys = around(word);
    for (let at = 0; at < keys.length && found.size < 5; at += 12) {
      const some = keys.slice(at, at + 12);
      await Promise.all(some.map((key) => load(fileName(key))));
      for (const key of some) {
        for (const row of shards.get(key) || []) {
          const [name, total] = row;
          let fit = most + 1;
          for (const match of name.matchAll(starts)) {
            const count = errors(word, normal(name.slice(match.index)), most);
            fit = Math.min(fit, count + (match.index ? 0.3 : 0));
          }
          if (fit >= most + 1) continue;
          const rank = 9000 + fit * 1000 + Math.abs(normal(name).length - word.length) * 20;
          gather(found, row, others, rank, total, limit);
        }
      }
    }
    return found;
  }
  // Add the definitions of a name to what was found; `others` must all stand in their qualified names or paths.
  function gather(found, row, others, rank, total, limit) {
    let taken = 0;
    for (let at = 2; at < row.length && taken < limit; at += 4) {
      const path = paths[row[at + 1]];
      const qualified = row[at + 3] || row[0];
      if (others.length) {
        const whole = normal(qualified + " " + path);
        if (!others.every((other) => whole.includes(other))) continue;
      }
      taken += 1;
      const kind = manifest.kinds[row[at]];
      const id = `${row[at + 1]} ${kind} ${qualified}`;
      const known = found.get(id);
      const mine = rank - row[at + 2];
      if (known && known.rank <= mine) continue;
      const more = at === 2 ? total - (row.length - 2) / 4 : 0;
      found.set(id, { name: qualified, last: row[0], kind, path, rank: mine, more });
    }
  }

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
        gather(found, row, others, fit * 1000 + (others.length && turn < tries.length - 1 ? 500 : 0), total, limit);
      }
    });
    let misspelled = false;
    if (!found.size) {
      // The longest word is taken for the misspelled one.
      const word = [...words].sort((a, b) => b.length - a.length)[0];
      for (const [id, row] of await similar(word, words.filter((other) => other && other !== word), limit)) {
        found.set(id, row);
      }
      misspelled = found.size > 0;
    }
    const order = (a, b) => a.rank - b.rank || a.name.length - b.name.length || (a.name < b.name ? -1 : 1)
      || (a.path < b.path ? -1 : 1);
    return [...found.values()].sort(order).slice(0, limit)
      .map((row) => ({ ...row, misspelled, href: address(row.path, row.kind, row.name) }));
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
