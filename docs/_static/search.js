// Full-text search over `search-index.js`, with excerpts. It needs no server and no network.
(() => {
  const stop = new Set("a an and are as at be by can do does for from how i in is it my of on or the to use using what when where which with".split(" "));
  // Words are compared without their endings: save, saves, saved and saving are one word.
  const stem = (word) => {
    if (/[-_.\d]/.test(word) || word.length < 4) return word;
    return word.replace(/(ations?|ings?|ed|es|s|e)$/, (ending, _, at) => (at < 3 ? ending : ""));
  };
  const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+(?:[-.][\p{L}\p{N}_]+)*/gu) || [];
  const terms = (text) => {
    const words = split(text);
    const kept = words.filter((word) => !stop.has(word));
    return [...new Set((kept.length ? kept : words).map(stem))];
  };
  const escapeHtml = (text) => text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
  const mark = (text, wanted) =>
    escapeHtml(text).replace(/[\p{L}\p{N}_]+(?:[-.][\p{L}\p{N}_]+)*/gu, (word) => (wanted.some((term) => matches(word.toLowerCase(), term)) ? `<mark>${word}</mark>` : word));
  const matches = (word, term) => stem(word) === term || word === term || word.split(/[.]/).some((part) => stem(part) === term || part === term);
  const count = (text, term) => split(text).reduce((sum, word) => sum + matches(word, term), 0);

  // Numbers of a term in a section: in its title, in the title of its page, in its text.
  const counts = ([page, , title, text], term, ofPages) => {
    const inside = (string) => (string.toLowerCase().includes(term) ? count(string, term) : 0);
    return [inside(title), ofPages[page], inside(text)];
  };
  // Scores of a section: its title counts most, then the title of its page, then its text. Rare words weigh more.
  const score = (section, found, weights, wanted) => {
    const [page, , title] = section;
    let sum = 0;
    let hit = 0;
    found.forEach(([inTitle, inPage, inText], number) => {
      if (!inTitle && !inText && !inPage) return;
      hit += inTitle || inText ? 1 : 0.5;
      sum += weights[number] * ((inTitle ? 12 : 0) + (inPage ? 6 : 0) + Math.min(inText, 4));
    });
    if (!hit || hit < wanted.length / 2) return 0;
    const name = title.toLowerCase();
    const asked = wanted.join(" ");
    if (name === asked) sum += 60;
    else if (name.endsWith("." + asked)) sum += 40 - 4 * name.split(".").length;
    // Explanations come before entries of the reference with the same words.
    if (!searchIndex.paths[page].startsWith("reference/")) sum += 8;
    if (searchIndex.paths[page] === "changelog.html") sum *= 0.3;
    return sum * (hit / wanted.length) ** 2;
  };
  const excerpt = (text, wanted) => {
    const words = text.split(" ");
    let best = 0;
    let most = -1;
    for (let start = 0; start < words.length; start += 8) {
      const window = words.slice(start, start + 32).join(" ");
      const found = wanted.filter((term) => count(window, term)).length;
      if (found > most) [best, most] = [start, found];
    }
    return (best ? "… " : "") + words.slice(best, best + 32).join(" ") + (best + 32 < words.length ? " …" : "");
  };
  const search = (query) => {
    const wanted = terms(query);
    if (!wanted.length) return { wanted, found: [] };
    const ofPages = wanted.map((term) => searchIndex.titles.map((title) => count(title, term)));
    const tables = searchIndex.sections.map((section) => wanted.map((term, number) => counts(section, term, ofPages[number])));
    const weights = wanted.map((_, number) => {
      const having = tables.filter((found) => found[number][0] || found[number][2]).length;
      return Math.log(1 + searchIndex.sections.length / (1 + having)) / 4;
    });
    const found = searchIndex.sections
      .map((section, at) => [score(section, tables[at], weights, wanted), section])
      .filter(([value]) => value > 0);
    found.sort((a, b) => b[0] - a[0]);
    // At most three sections of a page, so that a long page does not hide the others.
    const seen = new Map();
    const kept = found.filter(([, section]) => {
      const number = (seen.get(section[0]) || 0) + 1;
      seen.set(section[0], number);
      return number <= 3;
    });
    return { wanted, found: kept.slice(0, 40).map(([, section]) => section), total: found.length };
  };
  const box = document.querySelector("#search-box");
  const list = document.querySelector("#search-results");
  const show = () => {
    const { wanted, found, total } = search(box.value);
    document.body.dataset.found = found.length;
    document.querySelector("#search-count").textContent = wanted.length ? `${total || 0} sections found` : "";
    list.innerHTML = found
      .map(([page, anchor, title, text]) => {
        const home = searchIndex.titles[page];
        const above = home === title ? "" : `<span class="search-home">${escapeHtml(home)}</span>`;
        return `<li><a href="${searchIndex.paths[page]}#${encodeURI(anchor)}">${mark(title, wanted)}</a> ${above}<p>${mark(excerpt(text, wanted), wanted)}</p></li>`;
      })
      .join("");
  };
  box.value = new URLSearchParams(location.search).get("q") || "";
  let waiting;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 150);
  });
  box.form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  show();
  box.focus();
})();
