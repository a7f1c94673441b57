// The flame graph: stacks as a tree of bars, to zoom into and to search.

const LEVEL = 21;
// Least share of the view for a frame to be drawn, and to be drawn with a name.
const DRAWN_FROM = 0.001;
const NAMED_FROM = 0.012;
// Number of callers with a single callee from which on they are left out at first.
const FOLDED_FROM = 3;
// Files with a colour of their own, in this order.
const FILE_COLOURS = ['blue', 'green', 'purple', 'orange', 'sky'];
const HELP = 'Click or Enter: zoom. Arrows: callers, callees, neighbours. Esc: back to the whole.';

// `clock_gettime(MONOTONIC)`: the function with its clock, in short form.
const withClock = (name, clock) => clock ? `${name}(${clock.replace(/^CLOCK_/, '').replace(/_ID$/, '')})` : name;

// Name of a bar's function, its file (or a note), and its kind.
function frameFunction({ function: name, module, kind, address, start }) {
  const file = (module || '').split('/').pop();
  if (kind === 'signal') return { name: '<signal handler called>', note: file, kind: 'code' };
  if (name) return { name: name + (kind === 'inlined' ? ' (inlined)' : ''), note: file, kind: 'code' };
  const at = start ?? address;
  if (file && at > 0 && !file.startsWith('[')) return { name: `${file}+0x${at.toString(16)}`, note: file, kind: 'unknown' };
  return { name: `[${file.replace(/^\[|\]$/g, '') || 'unknown'}]`, note: file, kind: 'unknown' };
}
const calledFunction = ({ name, clock, via }) =>
  ({ name: withClock(name, clock), note: via === 'syscall' ? 'system call' : 'vDSO', kind: 'called' });

// The stacks as a tree, the busiest callees first, and the files that have a colour.
function flameTree(callers, program) {
  const plain = name => ({ name, note: '', kind: 'plain' });
  const cut = { name: '[cut]', note: 'the callers above are not known', kind: 'unknown' };
  const frames = callers.frames.map(frameFunction);
  const called = callers.called.map(calledFunction);
  const enter = (caller, what, calls) => {
    const key = what.kind + '\n' + what.note + '\n' + what.name;
    let callee = caller.known.get(key);
    if (!callee) {
      callee = { ...what, caller, depth: caller.depth + 1, calls: 0, known: new Map(), callees: [] };
      caller.known.set(key, callee);
      caller.callees.push(callee);
    }
    callee.calls += calls;
    return callee;
  };
  const whole = { ...plain('all calls'), caller: null, depth: 0, calls: 0, known: new Map(), callees: [] };
  for (const stack of callers.stacks) {
    if (!(stack.calls > 0)) continue;
    whole.calls += stack.calls;
    let at = enter(whole, plain(program(stack.pid)), stack.calls);
    if (!stack.complete) at = enter(at, cut, stack.calls);
    for (const index of stack.frames.toReversed()) {
      if (frames[index]) at = enter(at, frames[index], stack.calls);
    }
    if (called[stack.called]) enter(at, called[stack.called], stack.calls);
  }
  const all = [];
  const ofFiles = new Map();
  const place = (frame, start) => {
    frame.start = start;
    all.push(frame);
    if (frame.kind === 'code') ofFiles.set(frame.note, (ofFiles.get(frame.note) || 0) + frame.calls);
    frame.callees.sort((a, b) => b.calls - a.calls);
    for (const callee of frame.callees) {
      place(callee, start);
      start += callee.calls;
    }
  };
  place(whole, 0);
  const byCalls = [...ofFiles].filter(([file]) => file).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const files = byCalls.slice(0, FILE_COLOURS.length).map(([file]) => file);
  const colours = { plain: 'faint', called: 'vermillion', unknown: 'grid' };
  for (const frame of all) {
    frame.colour = colours[frame.kind] || FILE_COLOURS[files.indexOf(frame.note)] || 'faint';
  }
  return { all, files };
}

// The last frame from the top that has all calls (up to those not drawn): above it there are no branches.
function beforeFirstBranch(whole) {
  let frame = whole;
  while (frame.callees.length > 0 && frame.callees[0].calls > whole.calls * (1 - DRAWN_FROM)) [frame] = frame.callees;
  return frame;
}

// The graph with its buttons, and the text about the bar under the pointer.
function flame(all, label) {
  const [first] = all;
  const branch = beforeFirstBranch(first);
  // The graph begins at the first branch, or with all callers.
  let whole = branch.depth > FOLDED_FROM && branch.callees.length > 0 ? branch : first;
  let view = whole;
  let current = whole;
  let levels = [];
  const reset = make('button', { type: 'button' }, 'Whole (Esc)');
  const unfold = whole === first ? null : make('button', { type: 'button' }, `${branch.depth} callers above`);
  const search = make('input', { type: 'search', placeholder: 'function or file' });
  const matches = make('output');
  const area = make('div');
  const detail = make('p', { class: 'flame-detail', 'aria-live': 'polite' }, HELP);
  const element = make('div', { class: 'flame', role: 'group', 'aria-label': label },
    make('div', { class: 'flame-bar' }, reset, unfold, make('label', {}, 'Search ', search), matches),
    make('div', { class: 'flame-frames' }, area), detail);

  const share3 = (part, of) => (of > 0 ? (100 * part / of).toPrecision(3) : '0') + ' %';
  const describe = frame => {
    const note = frame.note ? ` [${frame.note}]` : '';
    const part = view === whole ? '' : `, ${share3(frame.calls, view.calls)} of the view`;
    return shown(`${frame.name}${note}: ${count(frame.calls)} calls, ${share3(frame.calls, first.calls)} of all${part}`);
  };
  // Tab reaches one bar: the last one chosen.
  const choose = (frame, focus) => {
    if (current.button) current.button.tabIndex = -1;
    current = frame;
    frame.button.tabIndex = 0;
    detail.textContent = describe(frame);
    if (focus) frame.button.focus();
  };
  const place = frame => {
    const isAbove = frame.depth < view.depth;
    const part = isAbove ? 1 : ofWhole(frame.calls, view.calls);
    const isThin = part < NAMED_FROM;
    const words = describe(frame);
    const classes = [frame.colour, isThin && 'thin', isAbove && 'above', frame.found && 'found'];
    const button = make('button', {
      type: 'button', tabindex: -1, class: classes.filter(Boolean).join(' '), title: words, 'aria-label': words,
    }, isThin ? '' : frame.name);
    button.style.top = (frame.depth - whole.depth) * LEVEL + 'px';
    button.style.left = isAbove ? '0' : 100 * ofWhole(frame.start - view.start, view.calls) + '%';
    button.style.width = 100 * part + '%';
    button.addEventListener('click', () => zoom(frame));
    button.addEventListener('focus', () => choose(frame, false));
    button.addEventListener('mouseenter', () => { detail.textContent = words; });
    frame.button = button;
    (levels[frame.depth] ||= []).push(frame);
    area.append(button);
  };
  const show = () => {
    area.textContent = '';
    all.forEach(frame => { frame.button = null; });
    levels = [];
    for (let caller = view.caller; caller && caller.depth >= whole.depth; caller = caller.caller) place(caller);
    const waiting = [view];
    while (waiting.length > 0) {
      const frame = waiting.pop();
      place(frame);
      waiting.push(...frame.callees.filter(callee => callee.calls >= view.calls * DRAWN_FROM).toReversed());
    }
    area.style.height = (levels.length - whole.depth) * LEVEL + 'px';
    element.dataset.view = shown(view.name);
  };
  const zoom = frame => {
    const hadFocus = area.contains(document.activeElement);
    view = frame;
    show();
    choose(frame, hadFocus);
  };
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    for (const frame of all) {
      frame.found = wanted !== '' && `${frame.name} ${frame.note}`.toLowerCase().includes(wanted);
      // Bars below a found bar are counted with it.
      frame.inFound = frame.caller !== null && (frame.caller.found || frame.caller.inFound);
    }
    const found = all.filter(frame => frame.found);
    const calls = sum(found.filter(frame => !frame.inFound), frame => frame.calls);
    matches.textContent = wanted === '' ? '' :
      `${count(found.length)} found, in ${share3(calls, first.calls)} of all calls`;
    show();
    choose(current.button ? current : view, false);
  };
  const neighbour = (frame, step) => levels[frame.depth][levels[frame.depth].indexOf(frame) + step];
  const moves = {
    ArrowUp: frame => frame.caller,
    ArrowDown: frame => frame.callees.find(callee => callee.button),
    ArrowLeft: frame => neighbour(frame, -1),
    ArrowRight: frame => neighbour(frame, 1),
    Home: () => whole,
  };
  area.addEventListener('keydown', event => {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const to = move(current);
    if (to && to.button) choose(to, true);
  });
  element.addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    event.preventDefault();
    if (event.target === search && search.value !== '') {
      search.value = '';
      find();
    } else {
      zoom(whole);
    }
  });
  reset.addEventListener('click', () => zoom(whole));
  if (unfold) {
    unfold.addEventListener('click', () => {
      whole = whole === first ? branch : first;
      unfold.textContent = whole === first ? 'From the first branch' : `${branch.depth} callers above`;
      zoom(whole);
    });
  }
  search.addEventListener('input', find);
  show();
  whole.button.tabIndex = 0;
  return element;
}
