// Pictures: rows of marks over one axis, and curves over two. Each is a function from a width in pixels to an
// element, so letters have the same size on every screen.

const LETTER = 12;
const pen = document.createElement('canvas').getContext('2d');
function widthOf(text, weight = 400) {
  pen.font = `${weight} ${LETTER}px system-ui, sans-serif`;
  return pen.measureText(text).width * 1.03 + 1;
}
// The text, with its middle cut if it is wider than `room`.
function cut(text, room, weight) {
  for (let kept = text.length; kept > 4 && widthOf(text, weight) > room; kept -= 1) {
    const half = (kept - 1) / 2;
    const short = text.slice(0, Math.ceil(half)) + '\u2026' + text.slice(text.length - Math.floor(half));
    if (widthOf(short, weight) <= room) return short;
  }
  return text;
}
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const ink = colour => `var(--${colour})`;
const label = (x, y, anchor, colour, text, weight) =>
  draw('text', { x, y, 'text-anchor': anchor, fill: ink(colour), 'font-weight': weight }, text);
const line = (x1, y1, x2, y2, colour, width = 1, dashes) =>
  draw('line', { x1, y1, x2, y2, stroke: ink(colour), 'stroke-width': width, 'stroke-dasharray': dashes });
const svg = (title, width, height, ...children) =>
  draw('svg', { role: 'img', viewBox: `0 0 ${width} ${height}`, 'aria-label': title, 'font-size': LETTER },
    draw('title', {}, title), ...children);

// ---- Scales ----

// Quotient of the largest and smallest value from which on an axis with the wish `fit` is logarithmic.
const LOGARITHMIC_FROM = 15;

// A scale for all values. `wish`: `linear` (around the values), `zero` (with zero on it), `log`, or `fit`
// (log or zero, as suits the values). `from` and `to` are the ends in pixels; `ticks` is the approximate
// number of ticks.
function scaleOf(values, wish, from, to, ticks) {
  const known = values.filter(isNumber);
  const extreme = (all, start, choose) => all.reduce((a, b) => choose(a, b), start);
  let low = extreme(known, Infinity, Math.min);
  let high = extreme(known, -Infinity, Math.max);
  const least = extreme(known.filter(value => value > 0), Infinity, Math.min);
  const log = wish === 'log' ? isNumber(least) : wish === 'fit' && low > 0 && high / low >= LOGARITHMIC_FROM;
  if (known.length === 0) [low, high] = [0, 1];
  let places;
  if (log) {
    low = Math.log10(Math.max(least, 1e-30));
    high = Math.log10(clamp(high, 1e-30, 1e30));
    const room = Math.max((high - low) * 0.04, 0.05);
    [low, high] = [low - room, high + room];
    places = logTicks(low, high, ticks);
  } else {
    if (wish !== 'linear') [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    const span = high - low;
    const room = span > Math.max(Math.abs(low), Math.abs(high)) * 1e-9 ? span * 0.05 : Math.abs(high) * 0.05 || 1;
    if (low !== 0) low -= room;
    if (high !== 0 || low === 0) high += room;
    places = linearTicks(low, high, ticks);
  }
  const place = value => {
    const at = log ? (value > 0 ? Math.log10(value) : low) : value;
    return from + (to - from) * (clamp(at, low, high) - low) / (high - low);
  };
  const value = log ? at => 10 ** at : at => at;
  return { place, ticks: places.map(value), low: value(low), high: value(high) };
}

function linearTicks(low, high, ticks) {
  const rough = (high - low) / Math.max(ticks, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough * 0.999) || rough;
  const places = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-6; n += 1) places.push(n * step);
  return places;
}

function logTicks(low, high, ticks) {
  const at = (factors, every) => {
    const places = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      if (power % every !== 0) continue;
      for (const factor of factors) {
        const place = power + Math.log10(factor);
        if (place >= low && place <= high) places.push(place);
      }
    }
    return places;
  };
  for (const factors of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3]]) {
    const places = at(factors, 1);
    if (places.length >= 2 && places.length <= ticks) return places;
  }
  const decades = at([1], 1).length;
  if (decades >= 2) return at([1], Math.ceil(decades / Math.max(ticks, 1)));
  const fine = at([1, 2, 3, 4, 5, 6, 7, 8, 9], 1);
  return fine.length >= 2 ? fine : [low + (high - low) / 8, high - (high - low) / 8];
}

// The axis below a picture: grid lines from `top` to `bottom`, labels, and the axis's name.
function axisBelow(scale, { name, text }, left, width, top, bottom) {
  const parts = [];
  let free = -Infinity;
  for (const tick of scale.ticks) {
    const x = scale.place(tick);
    const words = text(tick);
    const half = widthOf(words) / 2;
    const centre = clamp(x, half, width - half);
    parts.push(line(x, top, x, bottom, 'grid'));
    if (centre - half < free) continue;
    parts.push(label(centre, bottom + 16, 'middle', 'muted', words));
    free = centre + half + 10;
  }
  const named = cut(name, width);
  const start = Math.min(left, width - widthOf(named));
  parts.push(label(start, bottom + 34, 'start', 'muted', named));
  return parts;
}

// Upright lines with words above the picture, in as many lines of words as necessary; `height` is the height
// of the words.
function markersAbove(scale, markers, width, right) {
  const ends = [];
  const placed = markers.filter(([value]) => isNumber(value)).map(([value, words]) => {
    const x = scale.place(value);
    const text = cut(words, width - 4);
    const size = widthOf(text);
    const start = clamp(x - size / 2, 0, right - size);
    let row = ends.findIndex(end => end + 8 <= start);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = start + size;
    return { x, text, start, row };
  });
  const drawn = bottom => placed.map(({ x, text, start, row }) => [
    line(x, row * 16 + 18, x, bottom, 'ink', 1, '5 4'),
    label(start, row * 16 + 13, 'start', 'ink', text),
  ]);
  return { height: ends.length * 16 + (ends.length ? 6 : 2), drawn };
}

// ---- Rows ----

// Draws each kind of mark on the line at `y`, from the places of its values.
const MARKS = {
  // From one value to another; with a dot between.
  span: ([a, b], y, colour) => line(a, y, b, y, colour, 3),
  interval: ([a, middle, b], y, colour) => [
    line(a, y, b, y, colour, 2), line(a, y - 4, a, y + 4, colour, 2), line(b, y - 4, b, y + 4, colour, 2),
    draw('circle', { cx: middle, cy: y, r: 4, fill: ink(colour) }),
  ],
  dot: ([a], y, colour) => draw('circle', { cx: a, cy: y, r: 4, fill: ink(colour) }),
  tick: ([a], y, colour) => line(a, y - 7, a, y + 7, colour, 2.5),
};

// A hill of values on a line: `spans` are [low, high, count]. The height is the density, or its root, which
// makes single values visible.
function hill(spans, scale, left, right, y, height, colour, root) {
  const STEP = 2;
  const bins = new Float64Array(Math.ceil((right - left) / STEP) + 1);
  for (const [low, high, many] of spans) {
    const a = Math.floor((scale.place(low) - left) / STEP);
    const b = Math.max(Math.floor((scale.place(high) - left) / STEP), a);
    for (let bin = a; bin <= b; bin += 1) bins[bin] += many / (b - a + 1);
  }
  const smooth = Array.from(bins, (own, bin) => 0.5 * own + 0.25 * (bins[bin - 1] || 0) + 0.25 * (bins[bin + 1] || 0));
  const size = value => root ? Math.sqrt(value) : value;
  const most = size(smooth.reduce((a, b) => Math.max(a, b), 0)) || 1;
  let path = '';
  let open = false;
  smooth.forEach((many, bin) => {
    const x = left + bin * STEP;
    if (many > 0) {
      // A hill is at least one pixel high where there are values.
      const top = y - Math.sign(height) * Math.max(Math.abs(height) * size(many) / most, 1);
      path += (open ? 'L' : `M${x - STEP / 2} ${y}L`) + `${x} ${top.toFixed(1)}`;
    } else if (open) {
      path += `L${x - STEP / 2} ${y}Z`;
    }
    open = many > 0;
  });
  if (open) path += `L${right} ${y}Z`;
  return draw('path', { d: path, fill: ink(colour), opacity: 0.6 });
}

// Rows of marks in groups: { title, axis, text, wish, groups: [{ name, rows }], markers, root }.
// A row has a label, a value printed at its end, and marks: { kind, at, colour } or, for a hill,
// { kind: 'hill', spans, colour, below }.
function rows(picture) {
  const { title, axis, text, wish, groups, markers = [], root = false } = picture;
  const all = groups.flatMap(group => group.rows);
  const values = all.flatMap(row => row.marks).flatMap(mark => mark.at || mark.spans.flatMap(([a, b]) => [a, b]));
  values.push(...markers.map(([value]) => value));
  const has = test => all.some(row => row.marks.some(test));
  const up = has(mark => mark.kind === 'hill') ? 20 : 11;
  const down = has(mark => mark.below) ? 14 : 9;
  return width => {
    const widest = texts => texts.reduce((most, words) => Math.max(most, widthOf(words)), 0);
    const room = Math.min(width * 0.34, 230);
    // A group with a single row has its name in the row if there is room.
    const inRow = groups.every(g => g.rows.length === 1 && g.rows[0].label === '' && widthOf(g.name) < room);
    const left = Math.min(widest(all.map(row => row.label).concat(inRow ? groups.map(g => g.name) : [])), room) + 10;
    const right = width - Math.min(widest(all.map(row => row.value)), width * 0.3) - 10;
    const scale = scaleOf(values, wish, left, right, (right - left) / 75);
    const words = markersAbove(scale, markers, width, width);
    const parts = [];
    let y = words.height;
    for (const group of groups) {
      if (group.name && !inRow) {
        parts.push(label(0, y + 15, 'start', 'ink', cut(group.name, width, 600), 600));
        y += 18;
      }
      for (const row of group.rows) {
        y += up;
        parts.push(line(left, y, right, y, 'grid'));
        for (const { kind, at, spans, colour, below } of row.marks) {
          parts.push(kind === 'hill' ?
            hill(spans, scale, left, right, y, below ? 2 - down : up - 2, colour, root) :
            MARKS[kind](at.map(scale.place), y, colour));
        }
        parts.push(label(left - 10, y + 4, 'end', 'ink', cut(inRow ? group.name : row.label, left - 10)));
        parts.push(label(width, y + 4, 'end', 'ink', cut(row.value, width - right - 4)));
        y += down;
      }
      y += 4;
    }
    const behind = axisBelow(scale, { name: axis, text }, left, width, words.height, y);
    return svg(title, width, y + 42, behind, words.drawn(y), parts);
  };
}

// ---- Curves ----


// Curves: { title, x, y, series: [{ name, colour, shape, points }], markers, height }. An axis has a
// name, `text` from a value to words, and a wish; a shape is `area`, `line` or `dotted`.
function curves(picture) {
  const { title, x, y, series, markers = [], height = 230 } = picture;
  const points = series.flatMap(one => one.points);
  return width => {
    const ups = points.map(point => point[1]);
    const draft = scaleOf(ups, y.wish, height, 0, height / 45);
    const left = Math.min(draft.ticks.reduce((most, tick) => Math.max(most, widthOf(y.text(tick))), 0) + 8, width * 0.3);
    const right = width - 10;
    const xs = points.map(point => point[0]).concat(markers.map(([value]) => value));
    const across = scaleOf(xs, x.wish, left, right, (right - left) / 80);
    const words = markersAbove(across, markers, width, width);
    const top = words.height + 18;
    const bottom = top + height;
    const up = scaleOf(ups, y.wish, bottom, top, height / 45);
    const grid = up.ticks.map(tick => [
      line(left, up.place(tick), right, up.place(tick), 'grid'),
      label(left - 6, up.place(tick) + 4, 'end', 'muted', cut(y.text(tick), left - 6)),
    ]);
    const drawn = series.map(({ colour, shape, points }) => {
      const placed = points.map(([a, b]) => [across.place(a).toFixed(1), up.place(b).toFixed(1)]);
      if (placed.length === 0) return null;
      const path = 'M' + placed.map(point => point.join(' ')).join('L');
      const base = up.place(0).toFixed(1);
      const area = `${path}L${placed.at(-1)[0]} ${base}L${placed[0][0]} ${base}Z`;
      return [
        shape === 'area' ? draw('path', { d: area, fill: ink(colour), opacity: 0.25 }) : null,
        draw('path', { d: path, fill: 'none', stroke: ink(colour), 'stroke-width': 2 }),
        shape === 'dotted' ? placed.map(([cx, cy]) => draw('circle', { cx, cy, r: 3.5, fill: ink(colour) })) : null,
      ];
    });
    const named = label(0, words.height + 8, 'start', 'muted', cut(y.name, width));
    const below = axisBelow(across, x, left, width, top, bottom);
    return make('div', {}, legend(series),
      svg(title, width, bottom + 42, below, grid, named, drawn, words.drawn(bottom)));
  };
}

function legend(series) {
  const named = series.filter(one => one.name);
  if (named.length < 2) return null;
  return make('p', { class: 'legend' }, named.map(({ name, colour }) =>
    [make('span', { class: 'key ' + colour }), make('span', {}, name)]).map(pair => make('span', {}, ...pair)));
}
