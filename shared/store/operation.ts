/**
 * One call of the store from its start to its end, over all attempts: what ends it from outside (its deadline, its
 * caller's signal, the closing of the store) and what its attempts may have left behind.
 *
 * The caller gets its answer at the deadline even when the engine, its network thread or the body never answers. An
 * outcome that became unknown in any attempt stays unknown until an attempt succeeds: a later one that fails for
 * certain says nothing about the earlier.
 */
import { systemClock } from "../runtime/clock.ts";
import { backoffMs } from "../runtime/retry.ts";
import { type CommitOutcome, type ReadOptions, StoreError, type StoreErrorKind } from "./store.ts";

const BACKOFF_BASE_MS = 5;
/**
 * Somebody else's commit won, so waiting longer relieves nothing; a pause that grows would only let those who came later go first,
 * again and again, until the time of the one who pauses is over. About the time of a commit is enough to let the other through.
 */
const CONFLICT_BACKOFF_MS = 10;
/** From harmless to worst. */
const OUTCOMES: readonly CommitOutcome[] = ["no", "maybe_settled", "maybe_in_flight"];

/** What of an attempt the operation must see and do. */
export interface UnderWay {
  /** True from the moment the commit is sent until its result is known. */
  readonly committing: boolean;
  cancel(): void;
}

export interface RetryRules extends ReadOptions {
  readonly maxAttempts?: number;
  readonly onUnknown: "safe" | "unsafe";
  readonly maxRetryDelayMs: number;
}

export class Operation {
  readonly #rules: RetryRules;
  readonly #endsAt: number;
  readonly #over = Promise.withResolvers<never>();
  /** Made only when an attempt failed and a pause must be cut short; most operations need one attempt. */
  #pausing: AbortController | undefined;
  #ended: StoreError | undefined;
  #current: UnderWay | undefined;
  #committed: CommitOutcome = "no";
  #attempts = 0;
  #last: StoreError | undefined;

  constructor(rules: RetryRules) {
    this.#rules = rules;
    // Nobody may be waiting any more when it is rejected.
    this.#over.promise.catch(() => {});
    this.#endsAt = performance.now() + rules.deadlineMs;
  }

  get remainingMs(): number {
    return this.#endsAt - performance.now();
  }

  /** Runs `once` until it succeeds, fails for good, or the operation is ended. */
  async run<T>(once: (attempt: number) => Promise<T>): Promise<T> {
    const { signal } = this.#rules;
    const abort = () => this.end("aborted", "the operation was aborted");
    watchDeadline(this);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      if (signal?.aborted) abort();
      return await Promise.race([this.#over.promise, this.#attemptUntilDone(once)]);
    } catch (error) {
      throw error instanceof StoreError ? this.#final(error) : error;
    } finally {
      underWay.delete(this);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Ends the operation when its deadline has passed. */
  checkDeadline(nowMs: number): void {
    if (nowMs >= this.#endsAt) this.end("deadline", "the operation's deadline passed");
  }

  /** The attempt that is under way; ending the operation cancels it. */
  set current(attempt: UnderWay) {
    this.#current = attempt;
    if (this.#ended !== undefined) attempt.cancel();
  }

  /** Ends the operation now. What was sent to commit may still take effect. */
  end(kind: StoreErrorKind, message: string): void {
    if (this.#ended !== undefined) return;
    this.#ended = new StoreError(kind, message, { cause: this.#last });
    if (this.#current?.committing) this.#note("maybe_in_flight");
    this.#over.reject(this.#ended);
    this.#pausing?.abort();
    this.#current?.cancel();
  }

  async #attemptUntilDone<T>(once: (attempt: number) => Promise<T>): Promise<T> {
    for (;;) {
      if (this.#ended !== undefined) throw this.#ended;
      this.#attempts += 1;
      try {
        return await once(this.#attempts);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        this.#last = error;
        this.#note(error.committed);
        if (!this.#again(error)) throw error;
      }
      const delayMs = backoffMs(this.#attempts, {
        baseMs: BACKOFF_BASE_MS,
        maxMs: Math.min(
          this.#last.kind === "conflict" ? CONFLICT_BACKOFF_MS : Number.POSITIVE_INFINITY,
          this.#rules.maxRetryDelayMs,
        ),
      });
      this.#pausing = new AbortController();
      await systemClock.sleep(delayMs, this.#pausing.signal);
    }
  }

  #again(error: StoreError): boolean {
    if (this.#ended !== undefined) return false;
    const { maxAttempts = Number.POSITIVE_INFINITY, onUnknown } = this.#rules;
    if (this.#attempts >= maxAttempts) return false;
    if (error.kind === "commit_unknown") return onUnknown === "safe";
    // The client library gave up on this attempt; the operation still has time, or it would have been ended.
    return error.retryable || error.kind === "deadline";
  }

  #note(committed: CommitOutcome): void {
    if (OUTCOMES.indexOf(committed) > OUTCOMES.indexOf(this.#committed)) this.#committed = committed;
  }

  /** `commit_unknown` once any attempt may have taken effect: every other kind reads as "it did not". */
  #final(error: StoreError): StoreError {
    const unknown = this.#committed !== "no" && error.kind !== "fatal";
    return new StoreError(unknown ? "commit_unknown" : error.kind, error.message, {
      committed: this.#committed,
      details: { ...error.details, reason: error.kind, label: this.#rules.label, attempts: this.#attempts },
      cause: error.cause,
    });
  }
}

/**
 * All operations of this thread that are under way. One timer looks at all of their deadlines: a timer for each would cost more than
 * the reading of a key does.
 */
const underWay = new Set<Operation>();
const SWEEP_MS = 10;
let sweep: NodeJS.Timeout | undefined;

function watchDeadline(operation: Operation): void {
  underWay.add(operation);
  sweep ??= setInterval(() => {
    const nowMs = performance.now();
    for (const one of underWay) one.checkDeadline(nowMs);
    if (underWay.size > 0) return;
    clearInterval(sweep);
    sweep = undefined;
  }, SWEEP_MS);
}
