// The page of `clockscope bench`: the cost of each path, and its certainty.

// Rejected batches are shown up to this many times the greatest median: a few are so dear that all others
// would be squeezed.
const BEYOND = 4;

const ROUTES = { libc: 'blue', vdso: 'green', syscall: 'vermillion', tsc: 'purple' };
const routeColour = route => ROUTES[route] || 'orange';
const byRoute = route => ({ libc: 'through libc', vdso: 'by the vDSO', syscall: 'by system call', '': 'as it is' })[route] || 'by ' + route;
const subject = path => path.clock || path.call || '?';
const isEmptyLoop = path => subject(path) === 'empty loop';
const pathName = path => path.route && !isEmptyLoop(path) ? `${subject(path)} by ${path.route}` : subject(path);

function benchPage(report) {
  const { paths, ratios = [], notes = [], declines = [] } = report;
  return [
    inShort([routesOfOneClock(paths, ratios), cheapestAndDearest(paths), benchQuality(paths)]),
    hostWarnings(report.host),
    warning('Notes', notes),
    benchCosts(paths),
    ratios.length > 0 && benchRatios(ratios),
    report.instructions && benchInstructions(report.instructions),
    declines.length > 0 && section('Not measured',
      table('What was not measured, and why', ['path', 'why'], declines.map(row => [pathName(row), row.reason]))),
    hostFacts(report.host),
    report.method && section('How it was measured', paragraph(benchMethod(report.method)), ...again(benchCommand(report))),
  ];
}

// ---- On top ----

// The routes to one clock: CLOCK_MONOTONIC if present, otherwise the clock with most routes.
function routesOfOneClock(paths, ratios) {
  const groups = [...grouped(paths, subject)].filter(([, of]) => of.length > 1);
  const group = groups.find(([name]) => name === 'CLOCK_MONOTONIC') || greatest(groups, ([, of]) => of.length);
  if (!group) return null;
  const [name, of] = group;
  const costs = of.map(path => `${picos(path.cost_ps_median)} ${byRoute(path.route)}`);
  const ratio = greatest(ratios.filter(row => row.of.clock === name && row.to.clock === name), row => row.ratio);
  return `${name} costs ${joined(costs, 5)}.` + (ratio ?
    ` It costs ${digits(ratio.ratio)} times as much ${byRoute(ratio.of.route)} as ${byRoute(ratio.to.route)}.` : '');
}

// The cheapest and the dearest path, without the empty loop.
function cheapestAndDearest(paths) {
  const real = paths.filter(path => !isEmptyLoop(path));
  const low = greatest(real, path => -path.cost_ps_median);
  const high = greatest(real, path => path.cost_ps_median);
  if (!low || low.cost_ps_median === high.cost_ps_median) return null;
  const times = high.cost_ps_median / Math.max(low.cost_ps_median, 1);
  return `The cheapest is ${pathName(low)} at ${picos(low.cost_ps_median)}; the dearest is ${pathName(high)} at ` +
    `${picos(high.cost_ps_median)}, ${digits(times)} times as much.`;
}

// The reliability of the figures.
function benchQuality(paths) {
  const made = sum(paths, path => path.batches);
  if (made === 0) return null;
  const graded = grade => paths.filter(path => path.grade === grade).map(pathName);
  const [noisy, unusable] = [graded('noisy'), graded('unusable')];
  const grades = [
    noisy.length > 0 && `Noisy, and less sure: ${joined(noisy, 4)}`,
    unusable.length > 0 && `Unusable: ${joined(unusable, 4)}`,
  ].filter(Boolean);
  const part = share(sum(paths, path => path.accepted) / made);
  return `${grades.join('. ') || 'All figures are of grade quiet'}; ${part} of ${count(made)} batches ran undisturbed and count.`;
}

// ---- Costs and ratios ----

function benchCosts(paths) {
  if (paths.length === 0) return section('Costs by path', paragraph('No path was measured.'));
  const end = BEYOND * Math.max(...paths.map(path => path.cost_ps_median));
  const beyond = sum(paths, path => (path.rejected_ps || []).filter(ps => ps > end).length);
  const points = values => (values || []).map(value => [value, value, 1]);
  const row = path => {
    const colour = routeColour(path.route);
    const grade = path.grade === 'quiet' ? '' : path.grade;
    const rejected = (path.rejected_ps || []).filter(ps => ps <= end);
    return {
      label: [isEmptyLoop(path) ? '' : path.route, grade].filter(Boolean).join(', '),
      value: picos(path.cost_ps_median),
      marks: [
        rejected.length > 0 && { kind: 'hill', spans: points(rejected), colour: 'faint', below: true },
        { kind: 'hill', spans: points(path.samples_ps), colour },
        { kind: 'interval', at: [path.cost_ps_ci_low, path.cost_ps_median, path.cost_ps_ci_high], colour },
      ].filter(Boolean),
    };
  };
  const groups = [...grouped(paths, subject)].map(([name, of]) => ({ name, rows: of.map(row) }));
  const body = paths.map(path => {
    const launches = (path.launches || []).map(launch => launch.cost_ps_median);
    return [
      pathName(path), cell(path.cost_ps_median, picos), rangeCell(path.cost_ps_ci_low, path.cost_ps_ci_high),
      cell(path.cost_ps_min, picos), rangeCell(path.cost_ps_p5, path.cost_ps_p95),
      { text: `${count(path.accepted)} of ${count(path.batches)}`, key: ofWhole(path.accepted, path.batches) },
      launches.length ? rangeCell(Math.min(...launches), Math.max(...launches)) : '', path.grade,
    ];
  });
  const columns = ['path', 'median', 'interval', 'minimum', '5 to 95 % of all', 'batches that count', 'by launch', 'grade'];
  const regimes = paths.filter(path => path.regimes).map(path => `${pathName(path)}: ${path.regimes}`);
  const [first] = paths;
  return section('Costs by path',
    figure(cheapestAndDearest(paths) || `${pathName(first)} costs ${picos(first.cost_ps_median)}.`,
      'In colour, above each line: batches that ran undisturbed. In grey, below it: batches that did not, and do not ' +
      'count. The higher, the more batches. The dot is the median, with the ends of its interval.' +
      (beyond > 0 ? ` Not shown: ${counted(beyond, 'batch', 'batches')} that did not count, above ${picos(end)}.` : ''),
      rows({
        title: 'Cost of one call by path, with the spread of its batches', axis: 'cost of one call', text: picos,
        wish: 'fit', groups,
      })),
    table('Cost of one call', columns, body),
    regimes.length > 0 && [subheading('Launches that differ by more than 5 %'), list(regimes)]);
}

const rangeCell = (low, high) => ({ text: range(picos(low), picos(high)), key: low });

function benchRatios(ratios) {
  const groups = [...grouped(ratios, ratio => subject(ratio.of))].map(([name, of]) => ({
    name,
    rows: of.map(({ of, to, ratio, ci_low: low, ci_high: high }) => ({
      label: `${of.route} / ${subject(to) === name ? to.route : subject(to)}`, value: digits(ratio),
      marks: [{ kind: 'interval', at: [low, ratio, high], colour: routeColour(of.route) }],
    })),
  }));
  const body = ratios.map(row => [pathName(row.of), pathName(row.to), cell(row.ratio, digits),
    { text: `${digits(row.ci_low)} to ${digits(row.ci_high)}`, key: row.ci_low }]);
  const most = greatest(ratios, row => row.ratio);
  return section('Ratios',
    figure(most ? `${pathName(most.of)} costs ${digits(most.ratio)} times as much as ${pathName(most.to)} ` +
        `(from ${digits(most.ci_low)} to ${digits(most.ci_high)}).` : 'No ratio could be computed.',
      'Both costs of a quotient are of the same rounds, so that what disturbed one disturbed the other. The line is the interval.',
      rows({
        title: 'Costs of pairs of paths divided', axis: 'quotient of the costs', text: digits, wish: 'fit', groups,
        markers: [[1, 'equal']],
      })),
    table('Costs divided, from the same rounds', ['of', 'to', 'ratio', 'interval'], body));
}

// ---- Instructions ----

function benchInstructions({ no_counters: noCounters, rows: all }) {
  const named = enters => all.filter(row => isNumber(row.syscalls) && (row.syscalls > 0) === enters).map(pathName);
  const [outside, inside] = [named(false), named(true)];
  const hasCounters = all.some(row => isNumber(row.counted));
  const body = all.map(row => [
    pathName(row), cell(row.user, count), cell(row.in_vdso, count), cell(row.syscalls, count),
    row.agreeing ? { text: row.agreeing.join(' of '), key: row.agreeing[0] } : '-',
    ...(hasCounters ? [row.counted, row.cycles].map(value => cell(value, digits)) : []),
  ]);
  const columns = ['path', 'user', 'of them in the vDSO', 'system calls', 'repeats alike',
    ...(hasCounters ? ['user and kernel', 'cycles'] : [])];
  return section('Instructions of one call',
    list([
      outside.length > 0 && `Never enter the kernel: ${joined(outside, 12)}.`,
      inside.length > 0 && `Enter the kernel: ${joined(inside, 12)}.`,
    ].filter(Boolean)),
    paragraph(noCounters && `The kernel's instructions are not counted: ${noCounters}.`),
    table('Instructions of one call, the loop subtracted', columns, body));
}

// ---- How ----

function benchMethod(method) {
  const launches = method.launches > 1 ? `${method.launches} fresh processes, one after another` : 'one process';
  const rounds = method.rounds.length ? ` in ${joined(method.rounds.map(String), 8)} rounds` : '';
  const cpu = isNumber(method.cpu) ? `pinned to CPU ${method.cpu}` : 'not pinned to a CPU, because that was refused';
  return `Measured by ${launches}${rounds}, ${cpu}, in ${nanos(method.elapsed_ms * 1e6)}. In each round every path has one ` +
    'batch, with a control loop before and after it. A batch counts if neither control loop was more than ' +
    `${digits(method.gate_percent)} % slower than the best one. A figure is the median of those batches; its interval ` +
    `holds the true median with a confidence of ${digits(method.confidence_percent)} %. One turn of the empty loop, ` +
    `${picos(method.empty_loop_ps)}, is ${method.net ? 'subtracted from' : 'not subtracted from'} every figure.`;
}

function benchCommand(report) {
  const real = report.paths.filter(path => !isEmptyLoop(path));
  return ['clockscope bench', real.length > 0 && real.every(path => path.call) && 'syscalls',
    report.instructions && '--instructions', report.method.net && '--net', '--format html -o bench.html',
  ].filter(Boolean).join(' ');
}
