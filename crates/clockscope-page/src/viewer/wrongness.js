// The page of `clockscope wrongness`: the errors of each clock.

// Limits: clocks whose ages are drawn (the table has all), bins of a histogram, points of a curve.
const AGES_MAX = 8;
const BINS_MAX = 72;
const CURVE_MAX = 200;

// A number in a clock's unit; a pair of CPUs.
const inUnit = (value, unit) => unit === 'ns' ? nanos(value) : `${count(value)} ${unit}`;
const pair = cpus => cpus.join(' and ');
const getres = clock => clock.resolution ? clock.resolution.getres_ns : null;

function wrongnessPage(report) {
  const { clocks } = report;
  return [
    wrongnessVerdict(report),
    clocks.length === 0 && paragraph('No clock was looked at.'),
    ages(clocks.filter(clock => clock.staleness)),
    clocks.length > 0 && order(clocks),
    resolution(clocks.filter(clock => clock.resolution)),
    report.warps.length > 0 && warps(report.warps),
    report.offsets.length > 0 && offsets(report.offsets),
    (report.rates.length > 0 || report.discipline) && rates(report),
    report.declines.length > 0 && section('Not measured',
      table('What was not measured, and why', ['what', 'why'], report.declines)),
    hostFacts(report.host),
    section('How it was measured', paragraph(
      `Measured for ${nanos(report.elapsed_ms * 1e6)}. Order: bursts of reads on one CPU, by each ` +
      'route and by all in turn. Staleness: a read between two of the precise ' +
      'clock, kept if those are close together; once without pause (busy) and once at random moments with sleeps ' +
      'between them (idle). Warp and offset: two threads on two CPUs that hand a reading to each other. No clock was set.'),
    ...again('clockscope wrongness --format html -o wrongness.html')),
  ];
}

// The faults; without faults, a statement of that and the oldest answers.
function wrongnessVerdict({ faults, clocks }) {
  if (faults.length > 0) return warning('What is wrong', faults.map(fault => fault.sentence));
  const oldest = greatest(clocks.filter(clock => clock.staleness), clock => worse(clock.staleness).p99_ns);
  return inShort([
    `No fault was found in ${counted(clocks.length, 'clock', 'clocks')}, ${count(sum(clocks, clock => clock.reads))} reads.`,
    oldest && `The oldest answers: ${ageConclusion(oldest)}`,
  ]);
}

// ---- Distributions as buckets: [lower bound, how many] ----

const total = buckets => sum(buckets, ([, many]) => many);

// The outline of a histogram of bins of equal width from 0 to `high`.
function outline(buckets, high) {
  const used = buckets.filter(([, many]) => many > 0).sort((a, b) => a[0] - b[0]);
  const bins = new Array(clamp(Math.floor(used.length / 2), 12, BINS_MAX)).fill(0);
  const width = high / bins.length;
  used.forEach(([from, many], index) => {
    const next = index + 1 < used.length ? used[index + 1][0] : Infinity;
    // A bucket reaches to the next one, unless the gap shows empty buckets between them.
    const [a, b] = [from, from + Math.min(next - from, Math.floor(from / 16))].map(place => place / width);
    if (a > bins.length) return;
    const last = clamp(Math.ceil(b) - 1, 0, bins.length - 1);
    for (let bin = clamp(Math.floor(a), 0, bins.length - 1); bin <= Math.max(last, Math.floor(a)) && bin < bins.length; bin += 1) {
      const part = b > a ? (Math.min(b, bin + 1) - Math.max(a, bin)) / (b - a) : 1;
      bins[bin] += many * clamp(part, 0, 1);
    }
  });
  return bins.flatMap((many, bin) => [[bin * width, many], [(bin + 1) * width, many]]);
}

// The share of values below or at each bucket's lower bound, up to `end`.
function cumulative(buckets, end) {
  const all = Math.max(total(buckets), 1);
  let below = 0;
  const sorted = buckets.toSorted((a, b) => a[0] - b[0]).map(([low, many]) => [low, (below += many) / all]);
  const curve = sorted.filter(([low]) => low <= end);
  const every = Math.max(Math.ceil(curve.length / CURVE_MAX), 1);
  const kept = curve.filter((_, index) => index % every === 0 || index === curve.length - 1);
  const [first] = kept;
  return [[0, 0], ...(first ? [[first[0], 0]] : []), ...kept, [end, kept.length ? kept.at(-1)[1] : 0]];
}

// ---- Age of the answers ----

// The worse distribution: idle if it was sampled and its tail is clearly longer, otherwise busy.
const worse = ({ busy, idle }) =>
  idle.count > 0 && (busy.count === 0 || idle.p99_ns / 21 > busy.p99_ns / 20) ? idle : busy;

function ageConclusion(clock) {
  const of = worse(clock.staleness);
  const limit = getres(clock);
  if (of.count === 0) return `The age of ${clock.clock} was not sampled.`;
  const parts = [`${clock.clock} is ${nanos(of.p50_ns)} old typically and ${nanos(of.p99_ns)} or more in one of 100 reads`];
  if (isNumber(limit) && of.buckets.length > 0) {
    const older = total(of.buckets.filter(([low]) => low > limit)) / Math.max(total(of.buckets), 1);
    parts[0] += `: ${share(older)} of the reads are older than the ${nanos(limit)} of clock_getres`;
  }
  const { ahead, reference } = clock.staleness;
  if (ahead > 0) parts.push(`${count(ahead)} reads were ahead of ${reference}`);
  return parts.join('; ') + '.';
}

function ages(clocks) {
  if (clocks.length === 0) return null;
  const body = clocks.flatMap(clock => [['busy', clock.staleness.busy], ['idle', clock.staleness.idle]].map(([how, of]) => [
    clock.clock, how, cell(of.count, count),
    ...[of.min_ns, of.p1_ns, of.p50_ns, of.p99_ns, of.max_ns, getres(clock)].map(ns => cell(ns, nanos)),
  ]));
  const columns = ['clock', 'sampled', 'reads', 'minimum', '1 %', 'median', '99 %', 'maximum', 'clock_getres'];
  const more = clocks.length - AGES_MAX;
  return section('How old the answers are', clocks.slice(0, AGES_MAX).map(ageFigure),
    paragraph(more > 0 && `${more} more clocks are in the table only.`), table('Age of the answers', columns, body));
}

function ageFigure(clock) {
  const { busy, idle, reference } = clock.staleness;
  const limit = getres(clock);
  const most = Math.max(busy.max_ns, idle.max_ns);
  const p99 = Math.max(busy.p99_ns, idle.p99_ns);
  // The longest ages may be so rare and so long that the others would be squeezed.
  const end = Math.max(Math.min(Math.max(p99 * 1.4, (limit || 0) * 1.2), most), 1);
  const beyond = sum([busy, idle], of => total(of.buckets.filter(([low]) => low > end)));
  const both = [['busy', 'blue', busy], ['idle', 'orange', idle]].filter(([, , of]) => of.count > 0 && of.buckets.length > 0);
  const series = (shape, points) => both.map(([name, colour, of]) => ({ name, colour, shape, points: points(of.buckets) }));
  const axis = name => ({ name, text: value => percent(value * 100), wish: 'zero' });
  const x = { name: 'age of the answer', text: nanos, wish: 'zero' };
  const tail = worse(clock.staleness).p99_ns;
  const drawings = both.length === 0 ? [] : [
    curves({
      title: `Histogram of the age of ${clock.clock}`, height: 170, x, y: axis('share of the reads'),
      series: series('area', buckets => outline(buckets, end)
        .map(([age, many]) => [age, many / Math.max(total(buckets), 1)])),
      markers: isNumber(limit) ? [[limit, `clock_getres: ${nanos(limit)}`]] : [],
    }),
    curves({
      title: `Share of reads of ${clock.clock} that are at most so old`, height: 170, x,
      y: axis('share of the reads that are at most this old'),
      series: series('line', buckets => cumulative(buckets, end)), markers: [[tail, `99 %: ${nanos(tail)}`]],
    }),
  ];
  return figure(ageConclusion(clock),
    `Age against ${reference}: first, how many reads have it; then, how many are at most that old. Busy: read without ` +
    'pause. Idle: read at random moments with sleeps between them, when the tick may have been stopped.' +
    (beyond > 0 ? ` ${count(beyond)} older reads, up to ${nanos(most)}, are not shown.` : ''),
    ...drawings);
}

// ---- Order and resolution ----

function order(clocks) {
  const back = clocks.filter(clock => clock.backward > 0).length;
  const body = clocks.map(clock => [
    clock.clock, cell(clock.reads, count), cell(clock.backward, count),
    cell(clock.worst_backward, value => inUnit(value, clock.unit)), cell(clock.backward_between_routes, count),
  ]);
  const bursts = clocks.filter(clock => (clock.burst || []).length > 0);
  return section('Order',
    paragraph(back === 0 ? 'No clock went back on one CPU, by one route or between its routes.' :
      `Clocks that went back on one CPU: ${back}.`),
    table('Order on one CPU, and between routes',
      ['clock', 'reads', 'steps back', 'the worst', 'between routes'], body),
    bursts.map(clock => paragraph(
      `Readings of ${clock.clock} around its worst step back, in ${clock.unit}: ${clock.burst.join(', ')}.`)));
}

function resolution(clocks) {
  if (clocks.length === 0) return null;
  const timed = clocks.filter(clock => clock.unit === 'ns');
  const groups = timed.map(clock => {
    const { min_step: low, max_step: high, getres_ns: limit } = clock.resolution;
    const marks = [{ kind: 'span', at: [low, high], colour: 'sky' }, { kind: 'dot', at: [low], colour: 'blue' }];
    if (isNumber(limit)) marks.push({ kind: 'tick', at: [limit], colour: 'vermillion' });
    return { name: clock.clock, rows: [{ label: '', value: inUnit(low, clock.unit), marks }] };
  });
  const body = clocks.map(({ clock, unit, resolution: of }) => [
    clock, cell(of.getres_ns, nanos), ...[of.min_step, of.gcd, of.max_step].map(step => cell(step, value => inUnit(value, unit))),
    cell(of.zero_share, share), cell(of.steps, count),
  ]);
  const columns = ['clock', 'clock_getres', 'least step', 'divisor of all', 'largest step', 'zero steps', 'steps'];
  return section('Resolution',
    timed.length > 0 && figure(resolutionConclusion(timed),
      'The line goes from the least step that is not zero to the largest; the dot is the least, the upright stroke what ' +
      'clock_getres says. A largest step far to the right is a moment in which this program did not run.',
      rows({
        title: 'Least and largest step of each clock, and what clock_getres says',
        axis: 'step from one reading to the next', text: nanos, wish: 'log', groups,
      })),
    table('Steps of the readings', columns, body));
}

// The sentence about the clock whose steps are farthest from its `clock_getres`.
function resolutionConclusion(clocks) {
  const far = clock => Math.abs(Math.log(Math.max(clock.resolution.min_step / Math.max(getres(clock), 1), 1e-9)));
  const clock = greatest(clocks.filter(clock => isNumber(getres(clock))), far);
  if (!clock) return 'No clock says by clock_getres how fine it is.';
  if (getres(clock) === clock.resolution.min_step) return 'Every clock steps by what clock_getres says.';
  return `${clock.clock} steps by ${inUnit(clock.resolution.min_step, clock.unit)} or more, though clock_getres says ${nanos(getres(clock))}.`;
}

// ---- Between CPUs ----

function warpWord(warp) {
  if (warp.warps === 0) return 'none seen';
  if (warp.unordered) return 'not ordered: no fault';
  if (warp.random) return 'both ways: not usable';
  return isNumber(warp.behind) ? `CPU ${warp.behind} is behind` : 'warp';
}

function warps(all) {
  const body = all.map(warp => [
    warp.source, pair(warp.cpus), cell(warp.handovers, count), cell(warp.warps, count),
    cell(warp.warps === 0 ? null : warp.max_warp, value => `${count(value)} ${warp.unit}`),
    cell(warp.floor, value => `${count(value)} ${warp.unit}`), warpWord(warp),
  ]);
  return section('Warp between CPUs', paragraph(warpVerdict(all)),
    table('Readings less than that of another CPU before',
      ['source', 'CPUs', 'hand-overs', 'warps', 'the worst', 'floor', 'verdict'], body));
}

function warpVerdict(all) {
  const seen = all.filter(warp => warp.warps > 0);
  const worst = greatest(seen.filter(warp => !warp.unordered), warp => warp.max_warp);
  if (worst) {
    return `${worst.source} goes back by up to ${count(worst.max_warp)} ${worst.unit} between CPUs ${pair(worst.cpus)}: ${warpWord(worst)}.`;
  }
  const early = greatest(seen, warp => warp.max_warp);
  const none = all.filter(warp => warp.warps === 0);
  const floors = [...grouped(none.filter(warp => isNumber(warp.floor)), warp => warp.unit)].sort()
    .map(([unit, of]) => `${count(Math.max(...of.map(warp => warp.floor)))} ${unit}`);
  return `No ordered reading was less than that of another CPU before, in ${count(sum(none, warp => warp.handovers))} hand-overs.` +
    (floors.length ? ` A warp below the floor (${floors.join(', ')} at most) cannot be seen.` : '') +
    (early ? ` ${early.source} went back by up to ${count(early.max_warp)} ${early.unit}, because nothing orders it: it may ` +
      'be read before its turn, which is no fault of the counter.' : '');
}

function offsets(all) {
  const figures = [...grouped(all, row => row.unit)].sort().map(([unit, of]) => {
    const groups = [...grouped(of, row => row.source)].map(([name, rows]) => ({
      name,
      rows: rows.map(row => ({
        label: `CPUs ${pair(row.cpus)}`, value: digits(row.offset),
        marks: [{
          kind: 'interval', at: [row.interval[0], row.offset, row.interval[1]],
          colour: row.proven ? 'vermillion' : 'blue',
        }],
      })),
    }));
    return figure(skew(of, unit),
      'The line is the interval that holds the offset by all exchanges, the dot the estimate of the shortest one. A line ' +
      'that misses zero proves skew.',
      rows({
        title: 'Offset between counters of pairs of CPUs, with the interval that holds it', axis: `offset in ${unit}`,
        text: digits, wish: 'zero', groups, markers: [[0, 'no offset']],
      }));
  });
  const body = all.map(row => [
    row.source, pair(row.cpus), cell(row.offset, value => `${value} ${row.unit}`),
    cell(row.error, value => `\u00b1${count(value)} ${row.unit}`),
    { text: `${row.interval[0]} to ${row.interval[1]} ${row.unit}`, key: row.interval[0] }, cell(row.exchanges, count),
    row.proven ? 'proven' : 'not proven',
  ]);
  return section('Offset between CPUs', figures,
    table('Offset of the second CPU\u2019s reading to the first\u2019s',
      ['source', 'CPUs', 'offset', 'error', 'interval of all exchanges', 'exchanges', 'skew'], body));
}

function skew(all, unit) {
  const worst = greatest(all.filter(row => row.proven), row => Math.abs(row.offset));
  if (worst) {
    return `The counters of CPUs ${pair(worst.cpus)} are apart: ${worst.source} by ${worst.offset} ${unit} ` +
      `(from ${worst.interval[0]} to ${worst.interval[1]}).`;
  }
  const widest = Math.max(...all.flatMap(row => row.interval.map(Math.abs)));
  return `Every interval holds zero: no skew is proven, and none can be larger than ${count(widest)} ${unit}.`;
}

// ---- Rates ----

function rates({ rates: all, discipline }) {
  const ppm = value => digits(value) + ' ppm';
  // Clocks with different epochs are apart by whole seconds.
  const offset = ns => Math.abs(ns) >= 1e12 ? signed(value => value + ' s', Math.trunc(ns / 1e9)) : signed(nanos, ns);
  const body = all.map(rate => [
    rate.clock, rate.reference, cell(rate.ppm, ppm), cell(rate.bound_ppm, value => '\u00b1' + ppm(value)),
    cell(rate.expected_ppm, ppm), cell(rate.offset_ns, offset), cell(rate.baseline_ms, ms => nanos(ms * 1e6)),
  ]);
  const micros = us => nanos(us * 1e3);
  return section('Rate and offset', paragraph(largestRate(all)),
    discipline && paragraph(
      `${discipline.synchronised ? 'The kernel says that its clock is synchronised' : 'The kernel says that nobody synchronises its clock'}: ` +
      `frequency correction ${ppm(discipline.frequency_ppm)}, maximum error ${micros(discipline.max_error_us)}, estimated ` +
      `error ${micros(discipline.est_error_us)}, TAI minus UTC ${discipline.tai_offset_s} s.`),
    table('Rate of one clock against another, in parts per million',
      ['clock', 'against', 'rate', 'bound', 'expected', 'offset at the end', 'measured for'], body));
}

function largestRate(all) {
  const apart = rate => Math.abs(rate.ppm - rate.expected_ppm);
  const most = greatest(all.filter(rate => isNumber(rate.expected_ppm)), apart);
  if (!most) return null;
  if (apart(most) <= most.bound_ppm) {
    return 'No rate differs from what is expected by more than the bound of its measurement.';
  }
  return `${most.clock} runs ${digits(apart(most))} ppm off ${most.reference}, more than the bound of the measurement ` +
    `(${digits(most.bound_ppm)} ppm): that is ${seconds(apart(most) * 1e-6 * 86400)} a day.`;
}
