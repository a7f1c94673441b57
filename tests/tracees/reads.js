// Node: `node reads.js N`; N times Date.now and process.hrtime.bigint.
//
// Exact by difference with --single-threaded --jitless: then node's own reads, about 1,900 of
// CLOCK_MONOTONIC and one gettimeofday, do not depend on N. With the compiler they do.
const calls = Number(process.argv[2]);
for (let i = 0; i < calls; i++) Date.now();
for (let i = 0; i < calls; i++) process.hrtime.bigint();
console.log(`by-difference gettimeofday - ${calls}`);
console.log(`by-difference clock_gettime CLOCK_MONOTONIC ${calls}`);
