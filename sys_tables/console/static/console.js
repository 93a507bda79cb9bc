// Improves pages that can be read without it: times in the reader's zone, buttons that copy SQL, and live values.
"use strict";

// Turns an element into a fresh one, and keeps focus, scrolled panels, open parts, and the elements that scripts added: those with data-own.
function morph(old, fresh) {
  for (const { name, value } of fresh.attributes) if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  const following = (node) => { while (node?.dataset?.own) node = node.nextSibling; return node; };
  let next = following(old.firstChild);
  for (const child of [...fresh.childNodes]) {
    const match = child.id ? [...old.children].find((element) => element.id === child.id) : next;
    if (match?.nodeName !== child.nodeName || (match.id ?? "") !== (child.id ?? "")) { old.insertBefore(child, next); continue; }
    if (match === next) next = following(match.nextSibling); else old.insertBefore(match, next);
    if (child.nodeType === Node.ELEMENT_NODE) morph(match, child); else if (match.nodeValue !== child.nodeValue) match.nodeValue = child.nodeValue;
  }
  while (next) { const last = next; next = following(next.nextSibling); last.remove(); }
}

htmx.defineExtension("morph", {
  handleSwap(style, target, fragment) {
    if (style !== "morph") return false;
    morph(target, fragment.firstElementChild);
    return [target];
  },
});

function improve() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    time.title = moment.toISOString().replace("T", " ").slice(0, 19) + " UTC";
    time.textContent = moment.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
  }
  for (const mark of document.querySelectorAll("text[data-time]")) {
    const moment = new Date(mark.dataset.time);
    const has = mark.dataset.has.split(" ");
    const utc = document.createElementNS(mark.namespaceURI, "title");
    utc.textContent = moment.toISOString().replace("T", " ").slice(0, 19) + " UTC";
    const dateStyle = has.includes("date") ? "short" : undefined;
    mark.textContent = moment.toLocaleString(undefined, { dateStyle, timeStyle: has.includes("seconds") ? "medium" : "short" });
    mark.append(utc);
  }
  for (const text of document.querySelectorAll("pre > code")) {
    if (!navigator.clipboard || text.parentElement.nextElementSibling?.classList.contains("copy")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.dataset.own = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    });
    text.parentElement.after(button);
  }
  drawCharts();
}

// A hidden page has no stream: a browser opens only six connections to a host.
const RETRY_MS = 5000;

function keepLive(live) {
  const state = document.createElement("p");
  state.className = "live-state";
  state.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  let isPaused = false;
  let stream = null;

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const read = async () => {
    if (document.getSelection()?.toString()) return; // a swap would end the selection
    await htmx.ajax("GET", location.href, { target: "#live", select: "#live", swap: "morph" });
    improve();
    document.documentElement.dataset.read = Date.now();
  };
  const close = () => { stream?.close(); stream = null; };
  const NOT_LIVE = "The page is not live now. It tries again in a moment.";
  const GONE = "The console does not answer. The values are those of its last answer.";
  const lookAgain = async () => { // after a stream that will not open by itself: a reload without a console would lose the values
    close();
    try {
      const answer = await fetch(location.href, { redirect: "manual" });
      if (answer.type === "opaqueredirect") { location.reload(); return; } // the session has ended: the sign-in page comes
      const waiting = answer.status === 503 && answer.headers.has("Retry-After"); // a coordinator that starts or stands by: the page says so
      say(waiting ? new DOMParser().parseFromString(await answer.text(), "text/html").body.textContent : NOT_LIVE);
      setTimeout(follow, RETRY_MS);
    } catch { say(GONE); setTimeout(lookAgain, RETRY_MS); }
  };
  const follow = () => {
    close();
    button.textContent = isPaused ? "Resume live values" : "Pause live values";
    if (isPaused || document.hidden) { say(isPaused ? "Live values are paused." : ""); return; }
    stream = new EventSource(live.dataset.changes);
    stream.addEventListener("open", () => say("Live values."));
    stream.addEventListener("changed", () => { say("Live values."); read(); });
    stream.addEventListener("lost", () => say("The service does not answer. The values are those of its last answer."));
    stream.addEventListener("ended", lookAgain);
    stream.addEventListener("error", () => { say(GONE); if (stream?.readyState === EventSource.CLOSED) lookAgain(); });
  };

  button.addEventListener("click", () => { isPaused = !isPaused; follow(); if (!isPaused) read(); });
  document.addEventListener("visibilitychange", () => { follow(); if (!document.hidden && !isPaused) read(); });
  const bar = document.createElement("div");
  bar.className = "live";
  bar.append(state, button);
  live.before(bar);
  follow();
}

improve();
const live = document.getElementById("live");
if (live) keepLive(live);
