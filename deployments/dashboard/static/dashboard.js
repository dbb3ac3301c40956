// The only script: a theme button, and a part of the page that is read anew while a run goes.
const root = document.documentElement;
const themes = ["light dark", "light", "dark"];
const names = { "light dark": "System", light: "Light", dark: "Dark" };
const button = document.getElementById("theme");

function show(theme) {
  root.style.colorScheme = theme;
  if (button) button.textContent = names[theme];
}

let theme = "light dark";
try { theme = themes.includes(localStorage.theme) ? localStorage.theme : theme; } catch { /* no storage, no memory of it */ }
show(theme);
if (button) {
  button.hidden = false;
  button.setAttribute("aria-label", "Change between light, dark and the system's theme");
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    show(theme);
    try { localStorage.theme = theme; } catch { /* the same */ }
  });
}

async function refresh() {
  const live = document.getElementById("live");
  if (!live || !live.dataset.refresh) return;
  if (document.hidden || live.contains(document.activeElement)) return later(live);
  try {
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (answer.ok && fresh) live.replaceWith(fresh);
  } catch { /* the server may be back next time */ }
  later(document.getElementById("live"));
}

function later(live) {
  if (live && live.dataset.refresh) setTimeout(refresh, 1000 * Number(live.dataset.refresh));
}

later(document.getElementById("live"));
