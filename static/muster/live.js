// Keeps the part on screen fresh: each event of the stream (at most one refresh a second) and, for
// what has no event, every 15 seconds. A hidden page rests, and gives its connection back: browsers
// allow six to one origin. It catches up when it is seen again.
(() => {
  const LEAST_MS = 1000, IDLE_MS = 15000;
  const part = document.getElementById("live");
  if (!part) return;
  const sign = document.getElementById("live-sign");
  const subject = part.dataset.subject;
  let last = Date.now(), timer = 0, source = null;

  const refresh = () => { timer = 0; last = Date.now(); htmx.trigger(part, "live:refresh"); };
  const ask = () => {
    if (!timer && !document.hidden) timer = setTimeout(refresh, Math.max(0, last + LEAST_MS - Date.now()));
  };
  const say = (state, words) => { sign.dataset.state = state; sign.textContent = words; };

  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource("/api/v1/events");
    source.onopen = () => { say("on", "Live"); ask(); };
    source.onerror = () => say("off", "Reconnecting");
    source.onmessage = (message) => {
      if (!subject || JSON.parse(message.data).subject === subject) ask();
    };
  };
  const close = () => { source?.close(); source = null; };

  addEventListener("pageshow", open);
  addEventListener("pagehide", close);
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  setInterval(() => { if (Date.now() - last >= IDLE_MS) ask(); }, 1000);
})();
