// Live pages: the server sends an event when something has changed; the page is fetched again, and parts with `data-live` that
// are different are put in place of the old ones. A field that the user is typing into stays.
import { load } from "./parts.js";

const base = document.body.dataset.base;
const PAUSE = 2000; // at most so often, in milliseconds
const known = new Map(); // what the server last sent, by id
let revision = document.body.dataset.revision;
let last = 0;
let timer = 0;

export function listen() {
  for (const part of document.querySelectorAll("[data-live][id]")) known.set(part.id, part.outerHTML);
  const source = new EventSource(`${base}events`);
  source.onmessage = (event) => {
    const [now, state] = event.data.split(" ");
    show(state);
    if (now !== revision) {
      revision = now;
      soon();
    }
  };
  source.onerror = () => show("gone");
  document.addEventListener("visibilitychange", () => { if (!document.hidden && timer === -1) soon(); });
}

const WORDS = {
  live: "live",
  still: "one moment, read once",
  behind: "the cluster does not answer: this is how it was",
  gone: "the dashboard has stopped: this is how it was",
};

function show(state) {
  const sign = document.getElementById("state");
  if (!sign || sign.textContent === WORDS[state]) return;
  sign.textContent = WORDS[state];
  sign.className = `state ${state === "gone" ? "behind" : state}`;
}

function soon() {
  if (timer > 0) return;
  if (document.hidden) {
    timer = -1; // when the page is visible again
    return;
  }
  timer = setTimeout(refresh, Math.max(0, last + PAUSE - Date.now()));
}

async function refresh() {
  last = Date.now();
  timer = 0;
  if (document.getElementById("waiting")) {
    location.reload();
    return;
  }
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-live][id]")) {
    const old = document.getElementById(part.id);
    if (!old || known.get(part.id) === part.outerHTML) continue;
    known.set(part.id, part.outerHTML);
    if (!old.contains(document.activeElement) || !isTyping()) put(old, part);
  }
  document.dispatchEvent(new CustomEvent("refreshed"));
}

function isTyping() {
  return ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
}

function put(old, part) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const loaded = new Map([...old.querySelectorAll("[data-src]")].map((each) => [each.dataset.src, each.innerHTML]));
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollTop);
  old.replaceWith(document.adoptNode(part));
  for (const each of part.querySelectorAll("[data-src]")) {
    if (loaded.has(each.dataset.src)) each.innerHTML = loaded.get(each.dataset.src);
  }
  part.querySelectorAll(".scroll").forEach((each, index) => { each.scrollTop = scrolled[index] ?? 0; });
  if (focused?.href) [...part.querySelectorAll("a")].find((each) => each.href === focused.href)?.focus();
  load(part);
}
