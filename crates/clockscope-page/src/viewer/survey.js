// The page of `clockscope survey`: a host's clock reads by process, estimated from samples.

// Number of processes in the picture; the table has all.
const READERS_MAX = 16;

const placeOf = row => row.container ? `container ${row.container.name || row.container.id}` : row.unit || '';
const numbered = row => row.pid ? String(row.pid) : row.processes > 1 ? `${count(row.processes)} ended` : 'ended';
const spanOf = ({ reads: { low_per_second: low, high_per_second: high }, certainty }) =>
  certainty === 'seen' ? 'up to ' + perSecond(high) : range(perSecond(low), perSecond(high));

function surveyPage(report, { sampled, facts, remarks }) {
  const { processes, groups } = report;
  const said = all => all.map(([name, clause]) => sentence(`${name}: ${clause}`));
  return [
    paragraph(`All processes of this host, for ${sampled}.`),
    report.has_fallen_back ? warning('In short', said(facts)) : inShort(said(facts)),
    report.host && hostWarnings(report.host),
    surveyedProcesses(processes, report.elapsed_ns),
    groups.length > 0 && surveyedGroups(groups),
    report.elsewhere.length > 0 && otherClocksources(report),
    report.host && hostFacts(report.host),
    section('How it was measured', paragraph(
      'A timer on each CPU looked where the CPU was: in a clock function of the vDSO, in a system call that reads a clock, or ' +
      'elsewhere. Threads of clockscope read the clock meanwhile, which tells what a read costs in samples. No process was ' +
      'stopped or changed.'), list(said(remarks)),
    ...again(`clockscope survey --duration ${digits(report.elapsed_ns / 1e9)} --freq ${report.frequency_hz} --format html -o survey.html`)),
  ];
}

// A row's reads a second as text and as the key of its column.
function readsCell({ reads, certainty }) {
  if (!reads) return { text: 'coarse only', key: 0 };
  const text = { seen: 'seen', about: '~' + count(reads.per_second) }[certainty] || count(reads.per_second);
  return { text, key: reads.per_second };
}

// The columns common to processes and groups.
const READS = ['reads a second', '95 % interval', 'CPUs', 'share of its CPU time'];
const readsCells = row => [
  readsCell(row),
  row.reads ? { text: spanOf(row), key: row.reads.low_per_second } : '-',
  row.reads ? cell(row.cores, digits) : '-',
  row.reads ? cell(row.share, share) : '-',
];

// The clocks seen in the samples, the most costly first.
const clocksOf = row => [...new Set(row.clocks
  .filter(({ clock, function: name }) => clock || name !== 'clock_gettime')
  .map(({ clock, function: name, route }) => (clock || name) + (route === 'syscall' ? ' by syscall' : '')))].join(', ');

function surveyedProcesses(processes, elapsedNs) {
  if (processes.length === 0) {
    return section('Processes', paragraph(`No process was seen reading a clock in ${nanos(elapsedNs)}.`));
  }
  const rated = processes.filter(row => row.reads && row.certainty !== 'seen');
  const first = rated[0];
  const drawn = rated.slice(0, READERS_MAX).map(row => ({
    label: `${row.command} ${numbered(row)}`, value: `${digits(row.cores)} CPUs`,
    marks: [{
      kind: 'interval', colour: row.certainty === 'estimated' ? 'blue' : 'orange',
      at: [row.reads.low_per_second, row.reads.per_second, row.reads.high_per_second],
    }],
  }));
  const isPlaced = processes.some(placeOf);
  const body = processes.map(row =>
    [row.command, numbered(row), ...readsCells(row), clocksOf(row), ...(isPlaced ? [placeOf(row)] : [])]);
  return section('Processes',
    first && figure(
      `${first.command} (${numbered(first)}) reads the clock most expensively: ${perSecond(first.reads.per_second)}, ` +
        `${digits(first.cores)} CPUs.`,
      'The most costly first. The dot is the estimate, with the ends of its 95 % interval. In orange: 3 to 9 samples.',
      rows({ title: 'Clock reads a second by process', axis: 'clock reads a second', text: perSecond, wish: 'fit',
        groups: [{ name: '', rows: drawn }] })),
    table('Processes that read the clock, the most costly first', ['process', 'PID', ...READS, 'clocks', ...(isPlaced ? ['where'] : [])], body));
}

function surveyedGroups(groups) {
  const body = groups.map(group => [`${group.kind} ${group.name}`, ...readsCells(group), cell(group.processes, count)]);
  return section('Units and containers',
    table('The same by systemd unit and container', ['where', ...READS, 'processes'], body));
}

function otherClocksources({ elsewhere, costs, cores }) {
  const [here] = costs;
  const own = here ? [['here', cell(here.read_ps, picos), 'measured', cell(cores, digits), '-']] : [];
  const body = elsewhere.map(row => [
    row.clocksource, cell(row.read_ps, picos), row.is_measured ? 'measured' : 'typical of bare metal',
    cell(row.cores, digits), cell(row.more_cores, value => signed(digits, value)),
  ]);
  return section('The same reads on another clocksource',
    table('What the reads of this host would take', ['clocksource', 'a read', 'known how', 'CPUs', 'more'], [...own, ...body]));
}
