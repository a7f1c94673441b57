; The arithmetic of a clock page, proved for every content that a reader accepts.
;
; Every claim is negated: `unsat` says that nothing contradicts it. `make prove` asks z3 and cvc5, and
; then changes definitions here to see that the solvers find each fault. A test of crates/fastclock
; compares the constants with those in the Rust, and makes samples of the functions.
(set-logic ALL)

; content.rs
(define-fun LONGEST () Int 72057594037927936)
(define-fun VAGUEST () Int 2147483648)
(define-fun SLOWEST () Int 10000)
(define-fun LATEST () Int 2305843009213693951)

(define-fun SHIFT () Int 18446744073709551616)
(define-fun WORD () Int 18446744073709551616)
(define-fun WIDE () Int 340282366920938463463374607431768211456)
(define-fun HALF_WORD () Int 4294967296)

; TickLength::nanos in line.rs, whose product has 128 bits and whose sum is modulo 2^64
(define-fun nanos ((whole Int) (fraction Int) (ticks Int)) Int
  (mod (+ (mod (* ticks whole) WORD) (div (* ticks fraction) SHIFT)) WORD))
; The same where nothing is lost, which the first claims show
(define-fun plain ((whole Int) (fraction Int) (ticks Int)) Int
  (+ (* ticks whole) (div (* ticks fraction) SHIFT)))
; Bound::after
(define-fun after ((at_base Int) (growth Int) (ticks Int)) Int
  (+ at_base (div (* ticks growth) SHIFT) 1))
; Steep::through and Steep::at in reader.rs
(define-fun intercept ((from Int) (origin Int) (fraction Int)) Int
  (mod (- (* origin WORD) (* from fraction)) WIDE))
(define-fun steep ((from Int) (origin Int) (fraction Int) (low Int)) Int
  (div (mod (+ (intercept from origin fraction) (* low fraction)) WIDE) WORD))
; steepness() and the bound in Reader::hit
(define-fun steepness ((growth Int)) Int (+ (div growth HALF_WORD) 1))
(define-fun bound ((at_base Int) (growth Int) (from Int) (low Int)) Int
  (div (mod (+ (mod (- (* (+ at_base 1) HALF_WORD) (* from (steepness growth))) WORD)
               (* low (steepness growth))) WORD) HALF_WORD))

; A content that is_sound() accepts, and ticks within it
(declare-const whole Int)
(declare-const fraction Int)
(declare-const ticks Int)
(declare-const mono Int)
(declare-const at_base Int)
(declare-const growth Int)
(declare-const passed Int)
(declare-const sooner Int)
(assert (and (<= 0 whole) (< whole SLOWEST) (<= 0 fraction) (< fraction WORD)))
(assert (and (<= 0 ticks) (<= (* (+ whole 1) ticks) LONGEST)))
(assert (and (<= 0 mono) (< mono LATEST)))
(assert (and (<= 0 at_base) (<= 0 growth) (< growth WORD)))
(assert (< (+ at_base (div (* ticks growth) SHIFT)) VAGUEST))
(assert (and (<= 0 sooner) (<= sooner passed) (<= passed ticks)))
; Products grow with their factors; said here once, proved as the first claim.
(define-fun lemma ((a Int) (b Int) (factor Int)) Bool
  (=> (and (<= 0 a) (<= a b) (<= 0 factor)) (<= (* a factor) (* b factor))))
; Claims

(echo "products grow with their factors")
(push)
(declare-const a Int)
(declare-const b Int)
(declare-const factor Int)
(assert (not (lemma a b factor)))
(check-sat)
(pop)
(assert (lemma sooner passed whole))
(assert (lemma sooner passed fraction))
(assert (lemma passed ticks whole))
(assert (lemma passed ticks growth))
(assert (lemma passed ticks (+ whole 1)))
(assert (lemma fraction WORD passed))
(assert (lemma 0 passed fraction))
(assert (lemma 0 sooner fraction))
(assert (lemma 0 passed whole))
(assert (lemma 0 passed growth))

(echo "no product of a reading has more than 128 bits")
(push)
(assert (not (< (* passed fraction) WIDE)))
(check-sat)
(pop)

(echo "nothing is lost: the sum of a reading stays below 2^63")
(push)
(assert (not (< (+ mono (plain whole fraction passed)) 9223372036854775808)))
(check-sat)
(pop)

(echo "nothing is lost: the reading is that without a modulus")
(push)
(assert (not (= (nanos whole fraction passed) (plain whole fraction passed))))
(check-sat)
(pop)

(echo "time never goes back along a line")
(push)
(assert (not (<= (plain whole fraction sooner) (plain whole fraction passed))))
(check-sat)
(pop)

(echo "a reading is rounded down by less than a nanosecond")
(push)
(define-fun exact () Int (* passed (+ (* whole WORD) fraction)))
(assert (not (and (<= (* (plain whole fraction passed) WORD) exact)
                  (< exact (* (+ (plain whole fraction passed) 1) WORD)))))
(check-sat)
(pop)

(echo "time never goes back from a line to the one after it")
(push)
; This line ends after `passed` ticks, and was read `sooner`; the next is read `later` ticks after.
(declare-const next Int)
(declare-const next_whole Int)
(declare-const next_fraction Int)
(declare-const later Int)
(assert (and (<= 0 next_whole) (<= 0 next_fraction) (<= 0 later)))
(assert (lemma 0 later next_whole))
(assert (lemma 0 later next_fraction))
; keeper.rs begins where the old line has ended, or above; Writer::renew makes that the base.
(define-fun lowest () Int (+ mono (plain whole fraction passed)))
(assert (<= lowest next))
(assert (not (<= (+ mono (plain whole fraction sooner))
                 (+ next (plain next_whole next_fraction later)))))
(check-sat)
(pop)

; The two halves of a counter: `low` is the lower one, `from` that of the base.
(declare-const origin Int)
(declare-const from Int)
(assert (and (<= 0 origin) (< origin WORD) (<= 0 from) (< from HALF_WORD)))

(echo "the short way is the same function, also after the lower half has begun anew")
(push)
; (from + passed) * fraction, multiplied out
(assert (= (* (+ from passed) fraction) (+ (* from fraction) (* passed fraction))))
(assert (not (= (steep from origin fraction (+ from passed))
                (mod (+ origin (div (* passed fraction) WORD)) WORD))))
(check-sat)
(pop)

(echo "a bound is above what it bounds, by a nanosecond at most")
(push)
(define-fun open () Int (+ (* at_base WORD) (* passed growth)))
(assert (not (and (< open (* (after at_base growth passed) WORD))
                  (<= (* (after at_base growth passed) WORD) (+ open WORD)))))
(check-sat)
(pop)

(echo "the bound of the short way is not below either, and is not lost")
(push)
(assert (< passed HALF_WORD))
(define-fun s () Int (steepness growth))
(assert (= (* (+ from passed) s) (+ (* from s) (* passed s))))
; growth / 2^32 < s, so passed * growth / 2^32 <= passed * s <= passed * growth / 2^32 + passed
(assert (lemma growth (* s HALF_WORD) passed))
(assert (lemma (* (- s 1) HALF_WORD) growth passed))
(assert (= (* (* s HALF_WORD) passed) (* HALF_WORD (* passed s))))
(assert (= (* (* (- s 1) HALF_WORD) passed) (- (* HALF_WORD (* passed s)) (* HALF_WORD passed))))
(assert (not (<= (+ at_base (div (* passed growth) WORD))
                 (bound at_base growth from (+ from passed)))))
(check-sat)
(pop)
