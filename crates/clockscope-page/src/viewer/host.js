// The measured machine: the facts that decide the figures, and warnings.

const listed = who => who.length ? who.join('; ') : 'by whom is not known';

function hostWarnings(host) {
  const tracing = host.syscall_tracing;
  return warning('Beware', [
    tracing.active === true && `System calls are being traced on this host (${listed(tracing.who)}): each ` +
      'costs more than it does otherwise, for every process; what the vDSO answers does not.',
    host.vdso.falls_back === true &&
      'The vDSO of this machine does not answer CLOCK_MONOTONIC: it makes a system call itself.',
    isNumber(host.traced_by) && `Process ${host.traced_by} traced this measurement by ptrace.`,
  ]);
}

function hostFacts(host) {
  const megahertz = hz => (hz / 1e6).toFixed(3) + ' MHz';
  const others = host.clocksources_available.filter(name => name !== host.clocksource);
  const { active, who, note } = host.syscall_tracing;
  const tracing = active === true ? 'yes: ' + listed(who) : active === false ? 'nobody' : 'not known';
  const facts = [
    ['date', host.date],
    ['CPU', host.cpu_model],
    ['CPUs online', host.cpus_online > 0 && String(host.cpus_online)],
    ['kernel', `${host.kernel} ${host.arch}`.trim()],
    ['virtualisation', host.virtualisation],
    ['clocksource', host.clocksource && host.clocksource +
      (others.length ? ` (available too: ${others.join(', ')})` : '')],
    ['HZ', isNumber(host.hz) && String(host.hz)],
    ['TSC by the kernel', isNumber(host.tsc_hz_kernel) && megahertz(host.tsc_hz_kernel) +
      (host.tsc_hz_source ? ` (${host.tsc_hz_source})` : '')],
    ['TSC measured', isNumber(host.tsc_hz_measured) && megahertz(host.tsc_hz_measured) +
      (isNumber(host.tsc_bound_ppm) ? ` \u00b1 ${digits(host.tsc_bound_ppm)} ppm` : '')],
    ['vDSO', vdsoState(host.vdso)],
    ['load average', isNumber(host.load) && digits(host.load)],
    ['seccomp', host.seccomp],
    ['time namespace', host.time_namespace],
    ['tracing of system calls', tracing + (note ? ` (${note})` : '')],
    ['kernel command line', host.command_line],
    ['clockscope', host.clockscope],
  ];
  return section('The machine', table('What decides the numbers', ['fact', 'value'], facts.filter(([, value]) => value)));
}

function vdsoState({ present, falls_back: fallsBack, ratio }) {
  if (!present) return 'none';
  if (typeof fallsBack !== 'boolean') return 'there';
  const times = isNumber(ratio) ? `; by syscall(2) it costs ${digits(ratio)} times as much` : '';
  return (fallsBack ? 'falls back to a system call' : 'answers CLOCK_MONOTONIC') + times;
}

// Commands that make the same page again.
const again = (...commands) => [
  subheading('The same again'),
  commands.map(command),
  paragraph('A page of any saved report:'),
  command('clockscope view report.json -o report.html'),
];
