// Keys for readers who do not use a mouse. They work where no field has the focus, and the help page turns them off.
"use strict";

const KEYS_OFF = "lakeward-keys-off";
const NEXT_KEY_MS = 1_500;
let beforeNext = 0;

function isField(element) {
  return element.matches("input, textarea, select") || element.isContentEditable;
}

function moveInRows(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].map((row) => row.querySelector("a[href]")).filter(Boolean);
  if (!rows.length) return;
  const present = rows.findIndex((link) => link.closest("tr").contains(document.activeElement));
  rows[present < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(present + step, 0), rows.length - 1)].focus();
}

function keyPressed(event) {
  if (event.key === "Enter" && event.ctrlKey && event.target.id === "statement") { event.target.form.requestSubmit(); return; }
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (isField(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (localStorage.getItem(KEYS_OFF)) return;
  const follows = Date.now() - beforeNext < NEXT_KEY_MS;
  beforeNext = 0;
  const target = follows ? document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`) : null;
  if (target) target.click();
  else if (event.key === "g") beforeNext = Date.now();
  else if (event.key === "/") document.querySelector("#statement, [role=search] input[type=search]")?.focus();
  else if (event.key === "?") document.querySelector("nav a[data-key='h']")?.click();
  else if (event.key === "j") moveInRows(1);
  else if (event.key === "k") moveInRows(-1);
  else return;
  event.preventDefault();
}

function offerToTurnOff(place) {
  const button = document.createElement("button");
  button.type = "button";
  const name = () => { button.textContent = localStorage.getItem(KEYS_OFF) ? "Turn keys on" : "Turn keys off"; };
  button.addEventListener("click", () => {
    if (localStorage.getItem(KEYS_OFF)) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "yes");
    name();
  });
  name();
  place.append(button);
}

document.addEventListener("keydown", keyPressed);
const shortcuts = document.getElementById("shortcuts");
if (shortcuts) offerToTurnOff(shortcuts);
