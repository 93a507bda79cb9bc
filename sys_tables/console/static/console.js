// Improves pages that can be read without it: times in the reader's zone, and a button that copies SQL.
"use strict";

for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(time.dateTime);
  time.title = time.textContent;
  time.textContent = moment.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
}

for (const code of document.querySelectorAll("pre > code")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  });
  code.parentElement.after(button);
}
