// Before the page is drawn, so that it does not flash in the other colours.
"use strict";
try {
  const theme = localStorage.getItem("repobook-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage may be off */ }
if (window.self !== window.top) document.documentElement.dataset.framed = "";
