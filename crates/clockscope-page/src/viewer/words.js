// Numbers and names in words, as the text reports of clockscope print them.

const UNITS = [[1e3, 'ns'], [1e6, 'us'], [1e9, 'ms'], [1e12, 's']];
const isNumber = value => typeof value === 'number' && Number.isFinite(value);

// Three digits without trailing zeros; powers of ten if the number is far from 1.
function digits(value) {
  if (!isNumber(value)) return '?';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 999999.5 || size < 5e-5) {
    return value.toExponential(2).replace(/\.?0*e\+?/, 'e');
  }
  const places = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.095 ? 2 : size >= 0.0095 ? 3 : 5;
  return String(Number(value.toFixed(places)));
}

// A duration in picoseconds, in the unit that fits.
function picos(ps) {
  if (!isNumber(ps)) return '?';
  const size = Math.abs(ps);
  if (size > 0 && size < 0.5) return digits(ps / 1e12) + ' s';
  const sign = ps < 0 ? '-' : '';
  for (const [unit, name] of UNITS) {
    for (const power of [100, 10, 1]) {
      const rounded = Math.round(size * power / unit);
      if (rounded < 1000) return sign + rounded / power + ' ' + name;
    }
  }
  return sign + Math.round(size / 1e12) + ' s';
}
const nanos = ns => picos(ns * 1e3);
const seconds = s => picos(s * 1e12);

const count = number => isNumber(number) ? Math.round(number).toLocaleString('en-US') : '?';
const counted = (number, one, many) => count(number) + ' ' + (number === 1 ? one : many);
const percent = value => digits(value) + ' %';
const signed = (format, value) => (value > 0 ? '+' : '') + format(value);
const dash = (value, format) => value === null || value === undefined ? '-' : format(value);

// A share, 1 being the whole, in percent.
function share(part) {
  const value = part * 100;
  if (!isNumber(value)) return 'an unknown share';
  if (value <= 0) return '0 %';
  if (value < 0.01) return 'less than 0.01 %';
  const places = value < 0.995 ? 2 : value < 9.95 ? 1 : 0;
  return value < 1e6 ? value.toFixed(places) + ' %' : value.toExponential(1) + ' %';
}
const ofWhole = (part, whole) => whole > 0 ? part / whole : 0;

// Events a second, in full.
function rate(perSecond) {
  if (!isNumber(perSecond) || perSecond < 0) return '?';
  if (perSecond < 99.95) return perSecond.toFixed(perSecond < 1 ? 2 : 1);
  return perSecond < 1e12 ? count(perSecond) : perSecond.toExponential(2);
}

// Events a second with three digits, for axes and sentences.
function perSecond(value) {
  const size = Math.abs(value);
  const [scale, name] = size >= 999.5e6 ? [1e9, ' G'] : size >= 999.5e3 ? [1e6, ' M'] :
    size >= 9999.5 ? [1e3, ' k'] : [1, ''];
  return digits(value / scale) + name + '/s';
}

// Two values as an interval, with a common unit printed once.
function range(low, high) {
  const [number, unit] = low.split(' ');
  if (low === high) return low;
  return (unit && high.endsWith(' ' + unit) ? number : low) + ' to ' + high;
}

// `a, b and c`; of more than `most` names `a, b and 7 more`.
function joined(names, most) {
  if (names.length < 2) return names.join('');
  if (names.length > most) {
    return names.slice(0, most).join(', ') + ' and ' + (names.length - most) + ' more';
  }
  return names.slice(0, -1).join(', ') + ' and ' + names.at(-1);
}

// A clause as a sentence. Names such as vDSO keep their first letter.
function sentence(clause) {
  const first = /^(vDSO|clock)/.test(clause) ? clause[0] : clause.charAt(0).toUpperCase();
  return first + clause.slice(1) + (/[.!?]$/.test(clause) ? '' : '.');
}

// A word quoted for a POSIX shell.
const quoted = word => /^[\w\-./=:,@%+]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";

const sum = (items, value) => items.reduce((total, item) => total + value(item), 0);
// The item of the greatest value; `undefined` if no value is a number.
function greatest(items, value) {
  const known = items.filter(item => isNumber(value(item)));
  return known.reduce((best, item) => best === undefined || value(item) > value(best) ? item : best, undefined);
}
// Items by key, in the order in which keys first appear.
function grouped(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return groups;
}
