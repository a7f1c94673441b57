// Parts of pages: elements, tables, figures, trees. All text passes through `make` and `draw`, which write
// text nodes and attributes; nothing here parses markup.

const SVG = 'http://www.w3.org/2000/svg';
// Characters that are hidden in text or change its order, as in clockscope_text::foreign::is_hidden.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const shown = text => String(text).replace(HIDDEN, '?');
const isGiven = value => value !== null && value !== undefined && value !== false;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (isGiven(value)) element.setAttribute(name, shown(value));
  }
  const given = children.flat(3).filter(isGiven);
  element.append(...given.map(child => child instanceof Node ? child : shown(child)));
  return element;
}
// An HTML element, and an element of a picture.
const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

const paragraph = text => text ? make('p', {}, text) : null;
const list = sentences => sentences.length ? make('ul', {}, sentences.map(text => make('li', {}, text))) : null;
const command = text => make('pre', {}, make('code', {}, text));
const section = (heading, ...children) => make('section', {}, make('h2', {}, heading), ...children);
const subheading = text => make('h3', {}, text);

// A box on top of the page; nothing without sentences.
const box = (tone, heading, sentences) => sentences.length ?
  make('aside', { class: tone }, make('h2', {}, heading), list(sentences)) : null;
const inShort = sentences => box('conclusion', 'In short', sentences.filter(isGiven));
const warning = (heading, sentences) => box('warning', heading, sentences.filter(isGiven));

// The figures to be read first, as [name, value, note].
const tiles = all => make('dl', { class: 'tiles' }, all.map(([name, value, note]) =>
  make('div', {}, make('dt', {}, name), make('dd', {}, value), make('dd', { class: 'note' }, note))));

// ---- Tables ----

// Words of more letters than this are broken into lines.
const LONG = 40;

// A cell of a number, which is also the sort key; `-` without a number.
const cell = (number, format) => isNumber(number) ? { text: format(number), key: number } : '-';
const textOf = content => typeof content === 'object' ? content.text : String(content);

const isWord = content => typeof content === 'string' && content !== '-' && content !== '';

// A table. Cells are texts, or made by `cell`; columns of texts are aligned left. `sorted` is the column by
// which the rows are in descending order.
function table(caption, columns, rows, sorted) {
  if (rows.length === 0) return null;
  const classes = columns.map((_, column) => {
    const cells = rows.map(row => row[column]);
    if (!cells.some(isWord) || cells.some(content => typeof content === 'object')) return null;
    return cells.some(content => content.length > LONG) ? 'l' : 'w';
  });
  const heading = (text, column) => {
    const button = make('button', { type: 'button', title: 'Sort by ' + text }, text);
    button.addEventListener('click', () => sort(element, column));
    const order = column === sorted ? 'descending' : null;
    return make('th', { scope: 'col', class: classes[column], 'aria-sort': order },
      rows.length > 1 ? button : text);
  };
  const body = rows.map(row => make('tr', {}, row.map((content, column) => make(
    column === 0 ? 'th' : 'td',
    {
      scope: column === 0 ? 'row' : null, class: classes[column],
      'data-label': column === 0 ? null : columns[column], 'data-key': content.key, 'data-none': content === '-',
    },
    textOf(content)))));
  const element = make('table', {}, make('caption', {}, caption),
    make('thead', {}, make('tr', {}, columns.map(heading))), make('tbody', {}, body));
  return make('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': caption }, element);
}

// A cell's number, or its text. A cell without a number is last in descending order.
const keyOf = (row, column) => {
  const { dataset, textContent } = row.cells[column];
  return 'key' in dataset ? Number(dataset.key) : textContent;
};
const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : Number(a > b)) : typeof a === 'number' ? 1 : -1;

// Texts are sorted from A, numbers from the greatest; a second click on the heading reverses the order.
function sort(element, column) {
  const headings = [...element.tHead.rows[0].cells];
  const body = element.tBodies[0];
  const rows = [...body.rows];
  const isWords = rows.every(row => !('key' in row.cells[column].dataset));
  const orders = isWords ? ['ascending', 'descending'] : ['descending', 'ascending'];
  const order = headings[column].getAttribute('aria-sort') === orders[0] ? orders[1] : orders[0];
  headings.forEach(heading => heading.removeAttribute('aria-sort'));
  headings[column].setAttribute('aria-sort', order);
  const sign = order === 'ascending' ? 1 : -1;
  rows.sort((a, b) => sign * compare(keyOf(a, column), keyOf(b, column)));
  body.append(...rows);
}

// ---- Figures ----

// Pictures on the page. Each is drawn for the width of its box, and redrawn when that changes.
const pictures = [];

// A figure with its conclusion and, less prominent, how to read it. A picture is a function from a width in
// pixels to an element.
function figure(conclusion, reading, ...drawings) {
  const boxes = drawings.map(drawing => {
    const place = make('div', { class: 'picture' });
    pictures.push({ place, drawing, width: 0 });
    return place;
  });
  return make('figure', {}, make('div', { class: boxes.length > 1 ? 'panels' : null }, boxes),
    caption(conclusion, reading));
}
const caption = (conclusion, reading) => make('figcaption', {}, make('strong', {}, conclusion), ' ', reading);

// Redraws pictures whose width has changed, and turns the rows of tables that are too wide into paragraphs.
function fit() {
  for (const picture of pictures) {
    const width = Math.round(picture.place.clientWidth);
    if (width === 0 || width === picture.width) continue;
    picture.width = width;
    picture.place.replaceChildren(picture.drawing(width));
  }
  const tables = [...document.querySelectorAll('main table')];
  tables.forEach(element => element.classList.remove('cards'));
  const wide = tables.filter(element => element.getBoundingClientRect().width > element.parentElement.clientWidth);
  wide.forEach(element => element.classList.add('cards'));
}

// ---- Trees ----

// A branch has a name, figures, lines of text below it, branches, and may be open.
function branch({ name, figures, lines = [], branches = [], open }) {
  const line = [make('b', {}, name), ' ', make('span', {}, figures)];
  if (lines.length + branches.length === 0) return make('li', { class: 'leaf' }, line);
  return make('li', {}, make('details', { open: open ? '' : null }, make('summary', {}, line),
    lines.map(paragraph), branches.length ? make('ul', {}, branches.map(branch)) : null));
}
const tree = (label, branches) =>
  make('nav', { class: 'tree', 'aria-label': label }, make('ul', {}, branches.map(branch)));
