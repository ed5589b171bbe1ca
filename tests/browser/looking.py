"""JavaScript that measures a page in the browser."""

from __future__ import annotations

from typing import Any

# Text nodes of the result that a reader sees, with the contrast of each against what is behind it.
_CONTRASTS = """
const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}
function over(front, back) {
  return [0, 1, 2].map(i => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
}
function behind(element) {
  if (!element) {
    return rgba(matchMedia('(prefers-color-scheme: dark)').matches ? '#121212' : '#ffffff');
  }
  const own = rgba(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own : over(own, behind(element.parentElement));
}
function luminance(colour) {
  const [r, g, b] = colour.slice(0, 3).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(element, property) {
  const back = behind(element), style = getComputedStyle(element);
  const [a, b] = [luminance(over(rgba(style[property]), back)), luminance(back)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
document.querySelectorAll('details').forEach(item => { item.open = true; });
const found = [];
const walker = document.createTreeWalker(document.querySelector('.myops'), NodeFilter.SHOW_TEXT);
const seen = new Set();
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const hidden = !element.checkVisibility() || element.matches('style, title, script');
  if (!walker.currentNode.data.trim() || hidden || seen.has(element)) { continue; }
  seen.add(element);
  const drawn = element instanceof SVGElement;
  found.push([contrast(element, drawn ? 'fill' : 'color'), element.tagName,
              walker.currentNode.data.trim().slice(0, 40), element.className]);
}
for (const mark of document.querySelectorAll('.mark')) {
  if (mark.checkVisibility()) {  // not text: 3 to 1 is what is asked of it
    found.push([contrast(mark, 'fill') * 1.5, 'mark', '', mark.getAttribute('class')]);
  }
}
return found;
"""

_STRAYS = """
document.querySelectorAll('details').forEach(item => { item.open = true; });
const width = document.documentElement.clientWidth;
return Array.from(document.body.querySelectorAll('*'))
  .filter(item => !item.parentElement.closest('.wide') && item.checkVisibility())
  .filter(item => item.getBoundingClientRect().right > width + 0.5)
  .map(item => item.outerHTML.slice(0, 200));
"""

# Of every table in a frame: where its heads are when the frame is scrolled to its end.
_HEADS = """
document.querySelectorAll('details').forEach(item => { item.open = true; });
return Array.from(document.querySelectorAll('.wide')).map(frame => {
  frame.scrollIntoView({block: 'nearest'});
  frame.scrollTo(frame.scrollWidth, frame.scrollHeight);
  const scrolled = [frame.scrollLeft, frame.scrollTop];
  const box = frame.getBoundingClientRect();
  const near = (a, b) => Math.abs(a - b) <= 1.5;
  const column = Array.from(frame.querySelectorAll('thead th')).filter(
    head => !near(head.getBoundingClientRect().top, box.top)).length;
  const row = Array.from(frame.querySelectorAll('tbody th[scope=row], thead th.corner')).filter(
    head => !near(head.getBoundingClientRect().left, box.left)).length;
  // Nothing lies over them.
  const at = (x, y) => document.elementFromPoint(box.left + x, box.top + y);
  const corner = at(5, 5)?.closest('th');
  const last = frame.querySelector('tbody tr:last-child').getBoundingClientRect();
  const head = at(5, Math.min(last.bottom, box.bottom) - box.top - 22)?.closest('th');
  const table = frame.querySelector('table');
  return {
    label: frame.getAttribute('aria-label'), scrolled, column, row,
    has_row_heads: !!frame.querySelector('tbody th[scope=row]'),
    has_column_heads: !!frame.querySelector('thead th'),
    corner_is_head: !!corner, row_head_on_top: head?.getAttribute('scope') === 'row',
    larger: [table.scrollWidth - frame.clientWidth, table.scrollHeight - frame.clientHeight],
  };
});
"""

_PLOT_TEXT = """
return Array.from(document.querySelectorAll('.plot svg')).filter(item => item.checkVisibility())
  .map(svg => {
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    return {
      name: svg.getAttribute('class'), width: frame.width,
      texts: Array.from(svg.querySelectorAll('text')).map(item => {
        const box = item.getBoundingClientRect();
        return {text: item.textContent, size: parseFloat(getComputedStyle(item).fontSize) * scale,
                box: [box.left - frame.left, box.top - frame.top,
                      box.right - frame.left, box.bottom - frame.top]};
      }),
    };
  });
"""


def contrasts(driver: Any) -> list[tuple[float, str]]:
    """(contrast, text) of all visible text of the result, the lowest contrast first."""
    found = driver.execute_script(_CONTRASTS)
    return sorted((item[0], " ".join(map(str, item[1:]))) for item in found)


def widths(driver: Any) -> tuple[int, int]:
    """The width of the whole page, and of the visible part."""
    script = "const page = document.documentElement; return [page.scrollWidth, page.clientWidth];"
    whole, shown = driver.execute_script(script)
    return whole, shown


def strays(driver: Any) -> list[str]:
    """Elements beyond the right edge that are in no scrolling frame."""
    return list(driver.execute_script(_STRAYS))


def heads(driver: Any) -> list[dict[str, Any]]:
    """Whether the headers of each table are still visible at the end of the table."""
    return list(driver.execute_script(_HEADS))


def plots(driver: Any) -> list[dict[str, Any]]:
    """The visible plots: name, width, and size and position of each text."""
    return list(driver.execute_script(_PLOT_TEXT))


def tab_stops(driver: Any, most: int = 60) -> list[tuple[str, str]]:
    """(tag, name for a screen reader) of the elements that the tab key reaches, in order."""
    from selenium.webdriver import ActionChains, Keys

    name = """
      const item = document.activeElement;
      return [item.tagName, item.getAttribute('aria-label') || item.textContent.trim()];
    """
    stops: list[tuple[str, str]] = []
    for _ in range(most):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        tag, text = driver.execute_script(name)
        if tag == "BODY":
            break
        stops.append((tag, text))
    return stops
