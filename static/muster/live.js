// Keeps the part on screen fresh: each event of the stream (at most one refresh a second) and, for
// what has no event, every 15 seconds. A hidden page rests and catches up when it is seen again.
(() => {
  const LEAST_MS = 1000, IDLE_MS = 15000;
  const part = document.getElementById("live");
  if (!part) return;
  const sign = document.getElementById("live-sign");
  const subject = part.dataset.subject;
  let last = Date.now(), timer = 0, missed = false;

  const refresh = () => { timer = 0; last = Date.now(); htmx.trigger(document.getElementById("live"), "live:refresh"); };
  const ask = () => {
    if (document.hidden) { missed = true; return; }
    if (!timer) timer = setTimeout(refresh, Math.max(0, last + LEAST_MS - Date.now()));
  };
  const say = (state, words) => { if (sign) { sign.dataset.state = state; sign.textContent = words; } };

  let source = null;
  const open = () => {
    source = new EventSource("/api/v1/events");
    source.onopen = () => { say("on", "Live"); ask(); };
    source.onerror = () => say("off", "Reconnecting");
    source.onmessage = (message) => {
      if (!subject || JSON.parse(message.data).subject === subject) ask();
    };
  };
  addEventListener("pageshow", () => { if (!source) open(); });
  addEventListener("pagehide", () => { source?.close(); source = null; });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) { missed = false; ask(); } });
  setInterval(() => { if (Date.now() - last >= IDLE_MS) ask(); }, 1000);
})();
