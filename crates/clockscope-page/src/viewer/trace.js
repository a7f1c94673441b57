// The page of `clockscope trace`: number, callers and cost of the clock reads. `beside` has the sentences
// that the text report has, too.

// Limits: rows of the picture of times, points of the curve of rates, call sites with advice.
const SPREADS_MAX = 24;
const POINTS_MAX = 300;
const ADVISED_MAX = 10;

function tracePage(report, beside) {
  const host = beside.host;
  return [
    tiles(traceTiles(report, beside)),
    inShort([traceEnd(report), ...beside.reads.map(sentence), !beside.slow.length && traceElsewhere(report),
      ...beside.same_tick.map(sentence)]),
    warning('Slow reads', beside.slow.map(sentence)),
    host && hostWarnings(host),
    report.callers && traceCallers(report, beside),
    traceCalls(report),
    traceRates(report),
    processTree(report.processes_detail),
    traceAttached(report.attached || []),
    report.clock_page && clockPage(report.clock_page),
    beside.not_counted.length > 0 && section('Not counted', list(beside.not_counted.map(sentence))),
    host && hostFacts(host),
    section('How it was measured', list(traceMethod(report, beside)), ...again(...traceCommands(report))),
  ];
}

// ---- On top ----

function traceTiles(report, beside) {
  const reads = report.clock_reads;
  const rateOf = reads.reads_per_second;
  const all = [['clock reads a second', rateOf >= 1e6 ? perSecond(rateOf).replace('/s', '') : rate(rateOf),
    `${count(reads.reads)} in ${nanos(report.wall_ns)}, counted`]];
  if (reads.reads === 0) return all;
  const each = (ns, of) => picos(Math.round(ns * 1000 / Math.max(of, 1)));
  if (reads.time_ns > 0) {
    const [whole, name] = report.cpu_ns > 0 ? [report.cpu_ns, 'CPU time'] : [report.wall_ns, 'time'];
    const part = ofWhole(reads.time_ns, whole);
    if (whole > 0) {
      all.push(['of the ' + name, part > 1 ? 'all' : share(part), `${nanos(reads.time_ns)} of ${nanos(whole)}, estimated`]);
    }
    all.push(['a read, here', each(reads.time_ns, reads.reads), 'measured']);
  }
  if (reads.by_syscall_ns > 0 && beside.in_user_space) {
    all.push(['a read by system call, here', each(reads.by_syscall_ns, reads.reads),
      `measured; ${nanos(reads.by_syscall_ns)} in all`]);
  }
  for (const [ns, source] of fallenBack(reads)) {
    const whole = beside[`cpu_on_${source}_ns`];
    all.push(!isNumber(whole) ?
      [`a read, fallen back to ${source}`, each(ns, reads.clocksource_reads), `typical, not measured; ${nanos(ns)} in all`] :
      [`as long, fallen back to ${source}`, timesAsLong(whole / report.cpu_ns),
        `${nanos(whole)} of CPU time, with ${each(ns, reads.clocksource_reads)} a read, typical on bare metal`]);
  }
  const whatIf = report.what_if;
  if (whatIf && isNumber(whatIf.read_ps) && isNumber(whatIf.cpu_ns)) {
    const read = picos(whatIf.read_ps), times = timesAsLong(whatIf.times_as_long), cpu = `${nanos(whatIf.cpu_ns)} of CPU time`;
    all.push(whatIf.from_ratio ? [`a read, for ${times} as long`, read, cpu] : [`as long, at ${read} a read`, times, cpu]);
  }
  return all;
}

const timesAsLong = ratio => `${ratio < 10 ? ratio.toFixed(1) : ratio.toFixed(0)} times`;

// Typical times of the reads that ask the clocksource, for each slow clocksource; none if this host has
// fallen back.
function fallenBack(reads) {
  if (reads.clocksource_passed_on > Math.floor(reads.clocksource_reads / 2)) return [];
  return [[reads.typical_hpet_ns, 'hpet'], [reads.typical_acpi_pm_ns, 'acpi_pm']].filter(([ns]) => ns > 0);
}

function traceEnd(report) {
  const end = isNumber(report.signal) ? `killed by signal ${report.signal}` :
    isNumber(report.exit_code) ? `exit code ${report.exit_code}` : 'still running at the end';
  return `${counted(report.processes, 'process', 'processes')} with ${counted(report.threads, 'thread', 'threads')}, ` +
    `watched for ${nanos(report.wall_ns)} (${nanos(report.cpu_ns)} of CPU time): ${end}.`;
}

// Time of the same reads on a host that fell back, and its ratio to the time here.
function traceElsewhere(report) {
  const reads = report.clock_reads;
  const sources = fallenBack(reads);
  if (sources.length === 0) return null;
  // The time of all reads cannot be compared with that of some.
  const isAll = reads.clocksource_reads === reads.reads;
  const clauses = sources.map(([ns, source]) => `${nanos(ns)} where it fell back to ${source}` +
    (isAll && reads.time_ns > 0 ? `, ${(ns / reads.time_ns).toFixed(0)} times as much` : ''));
  const which = isAll ? 'the same reads' :
    `the ${counted(reads.clocksource_reads, 'read', 'reads')} that ask the clocksource`;
  return `On another host ${which} would typically take ${clauses.join(', and ')}.`;
}

// ---- The calls ----

// vDSO calls and system calls as rows of one table, in descending order of time.
function entries(vdso, syscalls) {
  const timed = syscalls.some(row => row.time_total_ns > 0);
  const entry = (name, via, row, isTimed) => ({
    name, via, calls: row.calls, errors: row.errors === null ? null : row.errors || 0, latency: row.latency_ns,
    time: isTimed ? row.time_total_ns : null, average: isTimed ? row.time_avg_ps : null, waits: row.waits === true,
  });
  const all = [
    ...vdso.map(row => entry(withClock(row.function, row.clock), 'vdso', row, row.timed > 0 && !row.time_uncertain)),
    ...syscalls.map(row => entry(row.name, 'syscall', row, timed)),
  ].filter(row => row.calls > 0);
  const key = row => row.time === null ? -1 : row.time;
  return all.sort((a, b) => key(b) - key(a) || b.calls - a.calls || (a.name < b.name ? -1 : 1));
}

function traceCalls(report) {
  const all = entries(report.vdso, report.syscalls);
  if (all.length === 0) return section('The calls', paragraph('No call was counted.'));
  const hasLatency = all.some(row => row.latency);
  const total = sum(all.filter(row => !row.waits), row => row.time || 0);
  const percentiles = hasLatency ? ['p50', 'p90', 'p99', 'max'] : [];
  const body = all.map(row => [
    row.name, row.via, cell(row.calls, count), cell(row.calls / (report.wall_ns / 1e9), rate), cell(row.time, nanos),
    row.waits ? { text: 'waits', key: -1 } : cell(total > 0 && row.time !== null ? row.time / total : null, part => share(part).replace('less than', '<')),
    cell(row.average, picos), ...percentiles.map(name => cell(row.latency && row.latency[name], nanos)),
    row.errors === null ? { text: 'not known', key: -1 } : cell(row.errors || null, count),
  ]);
  const columns = ['call', 'via', 'calls', 'calls/s', 'time', 'share', 'average', ...percentiles, 'errors'];
  return section('The calls', table('Calls of all processes', columns, body, 4),
    paragraph('Shares are of the time of all rows but those of calls that wait for something to do.'), traceSpreads(report, all));
}

// Buckets, each a sixteenth of its value wide at most, as spans that do not overlap.
const spansOf = buckets => buckets.filter(([, many]) => many > 0).map(([low, many], index, all) => {
  const next = index + 1 < all.length ? all[index + 1][0] : Infinity;
  const from = Math.max(low, 0.5);
  return [from, from + Math.min(Math.max(low / 16, 1), Math.max(next - low, 1)), many];
});

function traceSpreads(report, all) {
  const known = all.filter(row => row.latency && row.latency.buckets.some(([, many]) => many > 0));
  if (known.length === 0) return null;
  const first = greatest(known.filter(row => row.via === 'vdso'), row => row.calls) || greatest(known, row => row.calls);
  // Each function with clocks is a group, which leaves room for the clocks' names.
  const parts = ({ name, via }) => {
    const split = via === 'vdso' && /^(.*)\((.*)\)$/.exec(name);
    return split ? [split[1], split[2]] : [via === 'vdso' ? 'vDSO' : 'system calls', name];
  };
  const groups = [...grouped(known.slice(0, SPREADS_MAX), row => parts(row)[0])].map(([name, of]) => ({
    name,
    rows: of.map(row => {
      const { p50, p99, buckets } = row.latency;
      const colour = row.via === 'vdso' ? 'green' : 'vermillion';
      return {
        label: parts(row)[1], value: nanos(p50), marks: [
          { kind: 'hill', spans: spansOf(buckets), colour },
          { kind: 'span', at: [Math.max(p50, 1), Math.max(p99, 1)], colour },
          { kind: 'tick', at: [Math.max(p50, 1)], colour: 'ink' },
        ],
      };
    }),
  }));
  groups.sort((a, b) => (a.name === 'system calls') - (b.name === 'system calls'));
  const bySyscall = report.clock_reads.syscall_read_ps / 1e3;
  const more = known.length - SPREADS_MAX;
  return [
    subheading('How long single calls took'),
    figure(
      `Half of the calls of ${first.name} took ${nanos(first.latency.p50)} or less, one in a hundred ` +
        `${nanos(first.latency.p99)} or more.`,
      'The hills are the calls that were timed, as high as the root of their number. The short upright line is ' +
        'the median, printed at the end too; the coloured line goes on to the 99th percentile.' +
        (more > 0 ? ` ${more} more are in the table only.` : ''),
      rows({
        title: 'Distribution of the time of single calls', axis: 'time of a call', text: nanos, wish: 'log', groups,
        root: true, markers: bySyscall > 0 ? [[bySyscall, 'by system call']] : [],
      })),
  ];
}

// ---- Rates ----

// At most as many moments as a picture can show, in their order; the last one is kept.
function thinned(timeline) {
  const every = Math.max(Math.ceil(timeline.length / POINTS_MAX), 1);
  const start = { at_ns: 0, vdso_calls: 0, clock_reads: 0, syscall_calls: 0 };
  const kept = timeline.filter((_, index) => (timeline.length - 1 - index) % every === 0);
  return [start, ...kept].filter((moment, index, all) => index === 0 || moment.at_ns > all[index - 1].at_ns);
}

function traceRates(report) {
  const moments = thinned(report.timeline || []);
  if (moments.length < 2) return null;
  const rates = name => moments.slice(1).map((moment, index) => {
    const before = moments[index];
    const middle = (before.at_ns + moment.at_ns) / 2e9;
    return [middle, Math.max(moment[name] - before[name], 0) * 1e9 / (moment.at_ns - before.at_ns)];
  });
  const [reads, vdso, syscalls] = ['clock_reads', 'vdso_calls', 'syscall_calls'].map(rates);
  const highest = greatest([...reads, ...vdso], point => point[1])[1];
  // Two nearly equal curves would hide each other.
  const isApart = vdso.some((point, index) => Math.abs(point[1] - reads[index][1]) > 0.02 * highest);
  const series = [{ name: 'clock reads', colour: 'blue', shape: 'area', points: reads }];
  if (isApart) series.push({ name: 'all vDSO calls', colour: 'green', shape: 'line', points: vdso });
  if (syscalls.some(point => point[1] > 0)) {
    series.push({ name: 'system calls', colour: 'vermillion', shape: 'line', points: syscalls });
  }
  const most = greatest(reads, point => point[1]);
  const sorted = reads.map(point => point[1]).sort((a, b) => a - b);
  const conclusion = most[1] > 0 ?
    `Half of the time there were ${perSecond(sorted[Math.floor(sorted.length / 2)])} clock reads or fewer; ` +
      `${perSecond(most[1])} at most, ${digits(most[0])} s after the start.` :
    'No clock was read at any time.';
  return section('Rates over the run', figure(conclusion,
    'Each point is the exact number of calls between two looks at the counters, divided by the time between them.',
    curves({
      title: 'Clock reads and other calls a second, over the run', series,
      x: { name: 'since the start', text: s => digits(s) + ' s', wish: 'zero' },
      y: { name: 'calls a second', text: perSecond, wish: 'zero' },
    })));
}

// ---- Callers ----

function traceCallers(report, beside) {
  const { callers } = report;
  if (callers.stacks.length === 0) {
    return section('Who makes the calls',
      paragraph('No stack was sampled, so that nothing is known of the callers.'), callersQuality(callers, beside));
  }
  const names = new Map(report.processes_detail.map(process => [process.pid, process.command]));
  const { all, files } = flameTree(callers, pid => names.get(pid) || `process ${pid}`);
  const colours = [
    ...files.map((name, index) => ({ name, colour: FILE_COLOURS[index] })), { name: 'what is called', colour: 'vermillion' },
  ];
  const busiest = beside.sites.find(site => site.function);
  const conclusion = busiest ? `${busiest.function} makes ${share(busiest.share)} of the clock reads.` :
    'No caller that reads the clock is known by name.';
  return section('Who makes the calls',
    make('figure', {}, legend(colours), flame(all, conclusion), caption(conclusion,
      'Each bar is a function, as wide as its share of the calls; above it is its caller, below it what it calls. ' +
      'Colours are files.')),
    linesToChange(beside.sites, beside.more_sites), callersQuality(callers, beside));
}

function linesToChange(sites, more) {
  if (sites.length === 0) return null;
  const name = site => site.function || 'not known';
  const body = sites.map(site => [
    name(site), cell(site.per_second, rate), cell(site.share, share), cell(site.time_ns, nanos), site.place,
    site.called.join(', '),
  ]);
  return [
    subheading('The lines to change'),
    table('Places that read a clock, most reads first', ['function', 'reads/s', 'share', 'time', 'place', 'calls'], body, 1),
    paragraph(more > 0 && `${more} more places are left out; --format json has all stacks.`),
    list(sites.slice(0, ADVISED_MAX).flatMap(site => site.advice.map(advice => `${name(site)}: ${advice}.`))),
  ];
}

// The reliability of the shares.
function callersQuality(callers, beside) {
  const calls = sum(callers.called, row => row.calls);
  const exact = callers.called.some(row => row.estimated) ?
    'system calls were not counted, so that their numbers are estimates' : 'the numbers of calls are exact';
  const sentences = [
    `${counted(callers.samples, 'stack', 'stacks')} were sampled (${callers.freq} a second aimed at), and stand for ` +
      `${counted(calls, 'call', 'calls')}; ${exact}, how they are shared among the callers is estimated.`,
    callers.waits && `Python's threads waited ${count(callers.waits.count)} ${callers.waits.count == 1 ? 'time' : 'times'}${callers.waits.mean_ns > 0 ? `, ${nanos(callers.waits.mean_ns)} each` : ''}${callers.waits.missed > 0 ? `; ${count(callers.waits.missed)} ${callers.waits.missed == 1 ? 'stack was not read in time and is' : 'stacks were not read in time and are'} left out` : ''}.`,
    callers.cost_share > 0 && `Sampling cost ${share(callers.cost_share)} of the program's processor time (estimated).`,
    callers.lost > 0 && `${counted(callers.lost, 'sample was', 'samples were')} lost, because clockscope did not ` +
      'read them in time.',
  ];
  return [
    list(sentences.filter(Boolean)),
    table('Stacks that end early', ['why', 'in', 'samples'],
      callers.cut.map(cut => [cut.reason, cut.module || '-', cell(cut.samples, count)])),
    warning('Callers not sampled', beside.not_sampled.map(sentence)),
    warning('Callers not named', beside.not_named.map(sentence)),
  ];
}

// ---- Processes ----

// Limits of the tree: levels; number of childless siblings of one name from which on they share a line
// (`CROWD`); lines of one family; calls named below a process; share of all calls from which on a process is
// open at first.
const LEVELS_MAX = 8;
const CROWD = 6;
const FAMILY_MAX = 40;
const CALLS_NAMED = 5;
const OPEN_FROM = 0.05;

// The tree of processes with their calls; nothing for a single process.
function processTree(details) {
  if (details.length < 2) return null;
  const total = sum(details, process => process.vdso_calls);
  // A process id can recur: the parent is the last earlier process with that id.
  const last = new Map();
  const all = details.map(detail => {
    const node = { detail, children: [], calls: detail.vdso_calls, below: 0, parent: last.get(detail.parent) };
    last.set(detail.pid, node);
    if (node.parent) node.parent.children.push(node);
    return node;
  });
  // Parents come before their children: in reverse order, each sum is complete before it is added.
  for (const node of all.toReversed()) {
    if (!node.parent) continue;
    node.parent.calls += node.calls;
    node.parent.below += 1 + node.below;
  }
  const figures = calls => counted(calls, 'vDSO call', 'vDSO calls') + (total > 0 ? ` (${share(calls / total)})` : '');
  const program = name => name || 'a program without a name';

  const ofProcess = (node, level) => {
    const { pid, command, vdso_calls: own, syscall_calls: syscalls, vdso = [], syscalls: rows = [] } = node.detail;
    const named = entries(vdso, rows).sort((a, b) => b.calls - a.calls);
    const lines = named.length === 0 ? [] : ['Most calls: ' +
      named.slice(0, CALLS_NAMED).map(row => `${row.name} ${count(row.calls)}`).join(', ') +
      (named.length > CALLS_NAMED ? ', \u2026' : '')];
    const isDeep = level + 1 >= LEVELS_MAX && node.children.length > 0;
    if (isDeep) {
      lines.push(`Below it: ${counted(node.below, 'process', 'processes')}, ${figures(node.calls - own)}`);
    }
    return {
      name: `${program(command)} (${pid})`,
      figures: figures(own) + (isNumber(syscalls) ? `, ${counted(syscalls, 'system call', 'system calls')}` : '') +
        (node.calls > own ? `; with its children ${figures(node.calls)}` : ''),
      lines, open: level === 0 || ofWhole(node.calls, total) >= OPEN_FROM,
      branches: isDeep ? [] : family(node.children, level + 1),
    };
  };
  // Lines for siblings: crowds first, then single processes, then the number of those left out.
  const family = (nodes, level) => {
    const childless = grouped(nodes.filter(node => node.children.length === 0), node => node.detail.command);
    const crowds = [...childless].filter(([, crowd]) => crowd.length >= CROWD);
    const inCrowds = new Set(crowds.flatMap(([, crowd]) => crowd));
    const single = nodes.filter(node => !inCrowds.has(node)).sort((a, b) => b.calls - a.calls);
    const lines = crowds.map(([name, crowd]) => {
      const calls = crowd.map(node => node.calls).sort((a, b) => a - b);
      const all = sum(crowd, node => node.calls);
      const least = calls[0] === calls.at(-1) ? '' : count(calls[0]) + ' to ';
      return [all, { name: `${program(name)} \u00d7 ${count(crowd.length)}`, figures: `${figures(all)}; ${least}${count(calls.at(-1))} each` }];
    });
    lines.push(...single.slice(0, FAMILY_MAX).map(node => [node.calls, ofProcess(node, level)]));
    const branches = lines.sort((a, b) => b[0] - a[0]).map(([, line]) => line);
    const rest = single.slice(FAMILY_MAX);
    if (rest.length > 0) {
      branches.push({ name: counted(rest.length, 'process', 'processes') + ' more', figures: figures(sum(rest, node => node.calls)) });
    }
    return branches;
  };
  return section('Processes',
    paragraph(`${counted(all.length, 'process', 'processes')} made ${counted(total, 'vDSO call', 'vDSO calls')}. ` +
      'Shares are of these, those of a process with its children.'),
    tree('Processes', family(all.filter(node => !node.parent), 0)));
}

// ---- The rest ----

const ENDED = {
  duration: 'the end of --duration', interrupted: 'Ctrl-C', exited: 'its own end', killed: 'a signal that killed it',
};

// Container, pod and systemd unit, as far as known.
function place(process) {
  const { container, pod, unit } = process;
  const named = container && (container.name ? `container ${container.name} (${container.id.slice(0, 12)})` :
    `container ${container.id.slice(0, 12)}`);
  const ofPod = pod && `pod ${[pod.namespace, pod.name || pod.uid].filter(Boolean).join('/')}`;
  return [named, ofPod, unit].filter(Boolean).join(', ');
}

function traceAttached(attached) {
  if (attached.length === 0) return null;
  const pause = ns => ns === 0 ? '-' : cell(ns, nanos);
  const places = attached.map(place);
  // Without any known place the column would be empty.
  const tellsPlaces = places.some(text => text !== '');
  const columns = ['process', 'program', ...(tellsPlaces ? ['runs in'] : []), 'threads', 'stood still', 'stood still at the end', 'counting ended by'];
  return section('How it was attached to',
    paragraph('All threads of a running process stand still while its clock functions are redirected, and once ' +
      'more while they are put back.'),
    table('Processes that were attached to', columns, attached.map((process, index) => [
      cell(process.pid, String), process.command, ...(tellsPlaces ? [places[index]] : []), cell(process.threads, count), pause(process.pause_ns),
      pause(process.detach_pause_ns), ENDED[process.ended] || process.ended || 'unknown',
    ])));
}

// Reads answered by the clock page of `run --clock tsc`, and the page's upkeep.
function clockPage(page) {
  return section('The clock page',
    paragraph(`It answered ${count(page.answered)} of ${count(page.reads)} reads (${share(ofWhole(page.answered, page.reads))}); ` +
      `wrong by at most ${nanos(page.worst_bound_ns)}. ${counted(page.lines, 'line was', 'lines were')} published in ` +
      `${nanos(page.answered_ns)} of answering.` + (page.ordered ? '' : ' Order between threads was not guaranteed.')),
    table('Reads that the kernel answered', ['why', 'reads'], page.by_kernel.map(row => [row.reason, cell(row.reads, count)])),
    table('Times in which the page did not answer', ['why', 'for'],
      page.withdrawals.map(row => [row.reason, cell(row.lasted_ns, nanos)])));
}

function traceMethod(report, beside) {
  const via = {
    bpf: 'System calls are counted in the kernel, by eBPF, each one.',
    ptrace: 'System calls are counted by ptrace, each one.',
    sites: 'System calls are counted by code in the program, each one.',
    none: 'System calls were not counted.',
  };
  const hasCost = report.via !== 'none' || report.overhead.vdso_bracket_ps > 0;
  return [
    'vDSO calls are counted in the program itself, each one; their times are estimated from those calls that were timed.',
    via[report.via] || 'It is not known how system calls were counted.',
    beside.times && sentence('times ' + beside.times),
    beside.cost && hasCost && sentence('cost of counting: ' + beside.cost),
  ].filter(Boolean);
}

// Commands to type: this page, the callers as text, and the report as JSON.
function traceCommands(report) {
  const attached = report.attached || [];
  // The command of an attached process is only its name, which cannot be typed.
  const what = attached.length === 0 ? '-- ' + report.command.map(quoted).join(' ') :
    `-p ${attached.map(process => process.pid).join(',')} --duration ${Math.max(Math.floor(report.wall_ns / 1e9), 1)}`;
  const toldApart = report.processes_detail.some(process => isNumber(process.syscall_calls) || process.vdso);
  const options = toldApart ? ' --per-process' : '';
  return ['--format html -o report.html', '--callers', '--format json -o report.json --latency']
    .map(how => `clockscope trace ${how}${options} ${what}`.trimEnd());
}
