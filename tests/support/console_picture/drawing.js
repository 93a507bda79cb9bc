// Draws the visible part of a page as SVG: boxes, borders, inline pictures and lines of text, where the browser has laid them out.
() => {
  const drawn = [];
  const texts = [];
  const fixed = (number) => String(Math.round(number * 10) / 10);
  const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
  const isSeen = (colour) => !/^(transparent|none|rgba\(.*, 0\))$/.test(colour);
  const hex = (colour) => "#" + colour.match(/\d+(\.\d+)?/g).slice(0, 3).map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");

  const rectangle = (box, fill, more = "") =>
    drawn.push(`<rect x="${fixed(box.left)}" y="${fixed(box.top)}" width="${fixed(box.width)}" height="${fixed(box.height)}" fill="${fill}"${more}/>`);

  const classes = new Map();
  const line = (text, box, style) => {
    const look = `fill:${hex(style.color)};font-size:${fixed(parseFloat(style.fontSize))}px` +
      (Number(style.fontWeight) > 500 ? ";font-weight:600" : "") + (/mono/.test(style.fontFamily) ? ";font-family:monospace" : "") +
      (style.textDecorationLine.includes("underline") ? ";text-decoration:underline" : "");
    if (!classes.has(look)) classes.set(look, `t${classes.size}`);
    const baseline = box.top + box.height / 2 + parseFloat(style.fontSize) * 0.35;
    drawn.push(`<text class="${classes.get(look)}" x="${fixed(box.left)}" y="${fixed(baseline)}" textLength="${fixed(box.width)}">${escaped(text)}</text>`);
    texts.push(text);
  };

  const textNode = (node) => {
    const style = getComputedStyle(node.parentElement);
    const range = document.createRange();
    let text = "", box = null, before = 0;
    const end = () => { if (box) line(text, box, style); text = ""; box = null; };
    for (const match of node.data.matchAll(/\S/gu)) {
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const at = range.getBoundingClientRect();
      if (at.width < 1) continue;
      if (box && Math.abs(at.top - box.top) > 4) end();
      text += box && match.index > before ? ` ${match[0]}` : match[0];
      before = match.index + match[0].length;
      box = box ? new DOMRect(box.left, box.top, at.right - box.left, box.height) : at;
    }
    end();
  };

  const boxOf = (element, style) => {
    const box = element.getBoundingClientRect();
    const radius = parseFloat(style.borderTopLeftRadius);
    const more = radius ? ` rx="${fixed(Math.min(radius, box.height / 2))}"` : "";
    const sides = ["Top", "Right", "Bottom", "Left"].filter((side) => parseFloat(style[`border${side}Width`]) && style[`border${side}Style`] !== "none");
    const outline = sides.length === 4 ? ` stroke="${hex(style.borderTopColor)}"` : "";
    if (isSeen(style.backgroundColor) || outline) rectangle(box, isSeen(style.backgroundColor) ? hex(style.backgroundColor) : "none", more + outline);
    if (sides.length < 4 && sides.includes("Bottom")) rectangle(new DOMRect(box.left, box.bottom - 1, box.width, 1), hex(style.borderBottomColor));
    return box;
  };

  const control = (element, style, box) => {
    const inside = new DOMRect(box.left + 10, box.top, Math.max(box.width - 24, 1), box.height);
    if (element.type === "checkbox") { rectangle(box, "#ffffff", ' rx="2" stroke="#57606a"'); return; }
    if (element.tagName === "METER") {
      rectangle(new DOMRect(box.left, box.top + box.height / 4, box.width, box.height / 2), "#d0d7de");
      rectangle(new DOMRect(box.left, box.top + box.height / 4, box.width * element.value / element.max, box.height / 2), "#1a7f37");
      return;
    }
    const text = element.tagName === "SELECT" ? element.selectedOptions[0]?.textContent ?? "" : element.value || element.placeholder;
    if (!text) return;
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.font = style.font;
    line(text, new DOMRect(inside.left, inside.top, Math.min(canvas.measureText(text).width, inside.width), inside.height), style);
  };

  const picture = (element, box) => {
    const copy = element.cloneNode(true);
    const originals = [element, ...element.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((part, index) => {
      const style = getComputedStyle(originals[index]);
      for (const name of [...part.attributes].map((attribute) => attribute.name)) {
        if (/^(class|id|role|style|tabindex|data-|aria-)/.test(name)) part.removeAttribute(name);
      }
      if (/^(rect|polyline|polygon|line|path|circle)$/.test(part.tagName)) {
        part.setAttribute("fill", isSeen(style.fill) ? hex(style.fill) : "none");
        if (isSeen(style.stroke)) {
          part.setAttribute("stroke", hex(style.stroke));
          part.setAttribute("stroke-width", fixed(parseFloat(style.strokeWidth)));
          if (style.vectorEffect !== "none") part.setAttribute("vector-effect", style.vectorEffect);
        }
      }
      if (part.tagName === "title") part.remove();
    });
    for (const [name, value] of [["x", box.left], ["y", box.top], ["width", box.width], ["height", box.height]]) copy.setAttribute(name, fixed(value));
    drawn.push(new XMLSerializer().serializeToString(copy).replaceAll(' xmlns="http://www.w3.org/2000/svg"', "").replace(/>\s+</g, "><"));
  };

  const walk = (element) => {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (style.display === "none" || style.visibility === "hidden" || box.right < 0 || box.bottom < 0) return;
    if (style.position === "absolute" && box.width < 2) return;
    if (element.tagName === "svg") { picture(element, box); return; }
    boxOf(element, style);
    if (/^(INPUT|SELECT|METER)$/.test(element.tagName)) { control(element, style, box); return; }
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) textNode(child);
      else if (child.nodeType === Node.ELEMENT_NODE && !(element.tagName === "DETAILS" && !element.open && child.tagName !== "SUMMARY")) walk(child);
    }
  };
  walk(document.body);
  const looks = [...classes].map(([look, name]) => `.${name}{${look}}`).join("");
  return { drawn: drawn.join("\n"), looks, width: document.documentElement.clientWidth, height: Math.ceil(document.body.getBoundingClientRect().bottom), texts };
}
