// The page of `clockscope compare`: what changed, and how sure that is.

// More sentences than this are a wall; then only those of changes and doubts are told.
const SENTENCES_MAX = 12;
// Faster and slower are told apart by hue and by the side they are on; the rest is grey.
const VERDICTS = {
  slower: ['slower', 'vermillion'], faster: ['faster', 'blue'], same: ['no change that matters', 'ink'],
  not_proven: ['no difference proven', 'faint'], too_few: ['too few samples', 'faint'],
};
const SERIES = ['blue', 'vermillion', 'green', 'purple', 'orange', 'sky'];
const verdictWord = comparison => (VERDICTS[comparison.verdict] || ['?'])[0];
// Change in percent with the ends of its interval; `null` if it cannot be said in percent.
const changeOf = comparison => comparison.change_percent || comparison.shift_percent;

function comparePage(saved) {
  const report = spelled(saved);
  const files = [...new Set(report.sets.map(set => set.file))];
  const text = { ps: picos, ns: nanos }[report.unit] || (value => (digits(value) + ' ' + report.unit).trim());
  const context = { files, text, hasMany: files.length > 2 };
  return [
    inShort([report.conclusion || null]),
    warning('The machines differ', report.host_changes),
    warning('Bear in mind', report.notes || []),
    compareChanges(report, context),
    compareValues(report, context),
    report.unmatched.length > 0 && section('In one file only',
      table('Paths without a partner', ['file', 'path'], report.unmatched)),
    section('How it was compared', paragraph(
      'The shift is the median of all differences between a value of the other set and one of the first ' +
      '(Hodges-Lehmann). Whether there is one is tested by Mann-Whitney\u2019s U, which assumes nothing about the ' +
      `distribution; Welch\u2019s t stands beside it. Confidence ${digits(report.confidence_percent)} %; the smallest ` +
      `change that matters is ${digits(report.min_effect_percent)} % of the first set\u2019s median.`),
    ...again(compareCommand(report, files))),
  ];
}

// Names of paths as the sentences have them: MONOTONIC by vdso.
function spelled(report) {
  const name = path => path && path.replace(/^CLOCK_/, '').replace(/_ID by /, ' by ');
  const named = row => ({ ...row, path: name(row.path) });
  return {
    ...report,
    sets: report.sets.map(named),
    comparisons: report.comparisons.map(named),
    unmatched: report.unmatched.map(([file, path]) => [file, name(path)]),
  };
}

const otherFile = (report, comparison) => (report.sets[comparison.other] || { file: '?' }).file;

// What tells a comparison from the others: its path, its file, or both.
function compareSubject(report, comparison, { hasMany }) {
  const other = otherFile(report, comparison);
  if (!comparison.path) return other;
  return hasMany ? `${comparison.path} in ${other}` : comparison.path;
}

// The same for a picture: what stands once beside a group of rows, and the label of the row.
function groupAndLabel(report, comparison, { hasMany }) {
  const { path } = comparison;
  if (!path) return [otherFile(report, comparison), ''];
  if (hasMany) return [path, otherFile(report, comparison)];
  const split = /^(.*) by (.*)$/.exec(path);
  return split ? [split[1], split[2] === 'none' ? '' : split[2]] : [path, ''];
}

// ---- What changed ----

function compareChanges(report, context) {
  const { comparisons } = report;
  if (comparisons.length === 0) return section('What changed', paragraph('There is nothing to compare.'));
  const known = comparisons.filter(changeOf);
  const groups = [...grouped(known, comparison => groupAndLabel(report, comparison, context)[0])].map(([name, of]) => ({
    name,
    rows: of.map(comparison => {
      const [shift, low, high] = changeOf(comparison);
      const decision = comparison.decision_percent;
      return {
        label: groupAndLabel(report, comparison, context)[1], value: signed(percent, shift),
        marks: [
          decision && { kind: 'span', at: decision, colour: 'faint' },
          { kind: 'interval', at: [low, shift, high], colour: VERDICTS[comparison.verdict][1] },
        ].filter(Boolean),
      };
    }),
  }));
  const { min_effect_percent: least, confidence_percent: confidence } = report;
  const better = report.higher_is_better ? 'larger is better' : 'smaller is better';
  const told = comparisons.filter(one => comparisons.length <= SENTENCES_MAX || one.verdict !== 'same');
  const untold = comparisons.length - told.length;
  return section('What changed',
    figure(tally(report, context),
      `The dot is the Hodges-Lehmann shift, the line its ${digits(confidence)} % interval, the shaded band what is too ` +
      `small to matter (\u00b1${digits(least)} %). A grey line is that interval widened to the changes between any two ` +
      'launches. A change is proven to matter if all of it is outside the band.',
      rows({
        title: 'Shift of each set against the first, in percent, with its interval', axis: `shift in percent; ${better}`,
        text: percent, wish: 'zero', groups, band: [-least, least], markers: [[0, 'no change']],
      })),
    list([...told.map(one => one.sentence).filter(Boolean), untold > 0 && `${untold} others: ${VERDICTS.same[0]}.`].filter(Boolean)),
    compareTable(report, context));
}

// How many comparisons have each verdict, and the largest change.
function tally(report, context) {
  const parts = Object.entries(VERDICTS).map(([verdict, [word]]) => {
    const number = report.comparisons.filter(one => one.verdict === verdict).length;
    return number > 0 && `${number} ${word}`;
  });
  const proven = report.comparisons.filter(one => ['slower', 'faster'].includes(one.verdict) && changeOf(one));
  const most = greatest(proven, one => Math.abs(changeOf(one)[0]));
  return `Of ${counted(report.comparisons.length, 'comparison', 'comparisons')}: ${parts.filter(Boolean).join(', ')}.` +
    (most ? ` The largest proven change is that of ${compareSubject(report, most, context)}: ${signed(percent, changeOf(most)[0])}.` : '');
}

function compareTable(report, context) {
  const probability = p => p < 0.0001 ? '< 0.0001' : p.toFixed(4);
  const body = report.comparisons.map(one => {
    const change = changeOf(one);
    const ends = [one.shift_ci_low, one.shift_ci_high].map(value => signed(context.text, value));
    return [
      compareSubject(report, one, context), verdictWord(one), cell(one.shift, value => signed(context.text, value)),
      change ? { text: `${digits(change[0])} (${digits(change[1])} to ${digits(change[2])})`, key: change[0] } :
        `- (in the unit: ${range(...ends)})`,
      cell(one.u_p, p => probability(p) + (one.u_exact ? ', exact' : '')), cell(one.welch_p, probability),
      cell(one.cliff_delta, digits),
    ];
  });
  const columns = ['what', 'verdict', 'shift', 'in percent, with interval', 'Mann-Whitney p', 'Welch p', 'Cliff\u2019s delta'];
  return table('Each set against the first', columns, body);
}

// ---- The values ----

const setName = set => set.path ? `${set.path}, ${set.file}` : set.file;

// The values of plain sets on one axis; those of paths beside the median of their first set, so that
// cheap and dear paths can be seen together.
function compareValues(report, { files, text }) {
  const { sets } = report;
  if (sets.length === 0) return section('The values', paragraph('There are no values.'));
  const hasPaths = sets.some(set => set.path);
  const groups = [...grouped(sets, set => set.path || '')].map(([name, of]) => {
    const base = name && of[0].median;
    const place = value => base ? (value / base - 1) * 100 : value;
    const row = set => {
      const colour = SERIES[files.indexOf(set.file) % SERIES.length];
      const at = [set.median_ci_low, set.median, set.median_ci_high].map(place);
      return {
        label: set.file, value: text(set.median),
        marks: [
          { kind: 'hill', spans: set.values.map(place).map(value => [value, value, 1]), colour },
          { kind: 'interval', at, colour },
        ],
      };
    };
    return { name, rows: of.map(row) };
  });
  const body = sets.map(set => [
    setName(set), cell(set.n, count), cell(set.min, text), cell(set.median, text),
    { text: range(text(set.median_ci_low), text(set.median_ci_high)), key: set.median_ci_low },
    cell(set.max, text), cell(set.mean, text), cell(set.sd, text),
  ]);
  const row = hasPaths ? 'file' : 'set';
  return section('The values',
    figure(medians(report, text),
      `Each row is a ${row}: the higher the hill, the more values are there. The dot is the median, with the ends of its interval` +
      (hasPaths ? '; its value stands at the end of the row.' : '.'),
      rows({
        title: 'The values of each set, with the median',
        axis: hasPaths ? 'distance from the median of the first file' : 'value',
        text: hasPaths ? percent : text, wish: 'linear', groups,
      })),
    table('Each set by itself', ['set', 'n', 'minimum', 'median', 'its interval', 'maximum', 'mean', 'sd'], body));
}

// The medians of the first set and of the one furthest from it.
function medians(report, text) {
  const furthest = greatest(report.comparisons, one => changeOf(one) ? Math.abs(changeOf(one)[0]) : 0);
  const [base, other] = furthest ? [report.sets[furthest.base], report.sets[furthest.other]] : [];
  if (base && other) {
    return `Furthest apart: the median of ${setName(base)} is ${text(base.median)}, that of ${setName(other)} is ${text(other.median)}.`;
  }
  return `The median of ${setName(report.sets[0])} is ${text(report.sets[0].median)}.`;
}

function compareCommand(report, files) {
  return ['clockscope compare', report.higher_is_better && '--higher-is-better',
    Math.abs(report.confidence_percent - 95) > 1e-9 && `--confidence ${report.confidence_percent}`,
    Math.abs(report.min_effect_percent - 1) > 1e-9 && `--min-effect ${report.min_effect_percent}`,
    ...files.map(quoted), '--format html -o compare.html',
  ].filter(Boolean).join(' ');
}
