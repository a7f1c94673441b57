// Functions that read the clock in known shares: `node callers.js ROUNDS`.
//
// Exact: each function prints how often it called Date.now, which reads gettimeofday once. node itself
// reads it once more when it starts.
'use strict';
const calls = { orders: 0, prices: 0, stamps: 0 };

function stamp(who) {
  calls[who]++;
  return Date.now();
}

function orders(last) {
  for (let i = 0; i < 6; i++) last += stamp('orders');
  return last;
}

function prices(last) {
  for (let i = 0; i < 3; i++) last += stamp('prices');
  return last;
}

const stamps = last => last + stamp('stamps');

function serve(rounds) {
  let last = 0;
  for (let i = 0; i < rounds; i++) last = stamps(prices(orders(last)));
  return last;
}

// Like a server: the event loop calls each part.
function next(left) {
  const rounds = Math.min(left, 1000);
  serve(rounds);
  if (left > rounds) setImmediate(next, left - rounds);
  else for (const [who, made] of Object.entries(calls)) {
    console.log(`path stamp;${who};serve gettimeofday - ${made}`);
  }
}
next(Number(process.argv[2]));
