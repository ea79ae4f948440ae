// Runs before the page is drawn, so that a chosen theme does not flash. "" follows the system.
(() => {
  const root = document.documentElement;
  const chosen = () => { try { return localStorage.getItem("theme") || ""; } catch { return ""; } };
  const apply = (theme) => theme ? root.setAttribute("data-theme", theme) : root.removeAttribute("data-theme");
  apply(chosen());
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const isDark = chosen() ? chosen() === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const next = isDark ? "light" : "dark";
    try { localStorage.setItem("theme", next); } catch { /* private mode: for this page only */ }
    apply(next);
  });
})();
