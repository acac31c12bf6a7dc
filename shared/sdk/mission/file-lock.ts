/** A lock on a file of a mission, which renews itself until it is released. */
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { LockAnswer } from "../../protocol/mission-locks.ts";
import type { Clock } from "../../runtime/clock.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import { resultOf } from "../client/outcome.ts";
import type { CommandDelivery } from "../delivery/command-delivery.ts";
import type { QuerySender } from "../request/query-sender.ts";

export type LockResult = Omit<Camel<LockAnswer>, "status">;

export interface LockTerms {
  readonly purpose?: string | undefined;
  /** The sortie for which the file is locked; the lock ends with it. */
  readonly sortieId?: string | undefined;
  /** Milliseconds after which the lock ends unless it is renewed. Default 5 minutes. */
  readonly timeoutMs?: number | undefined;
  /** Milliseconds. Default 0: the file is not waited for. */
  readonly waitMs?: number | undefined;
}

export interface LockOptions extends LockTerms {
  readonly signal?: AbortSignal | undefined;
}

interface LockParts {
  readonly delivery: CommandDelivery;
  readonly queries: QuerySender;
  readonly clock: Clock;
}

interface LockPlace {
  readonly mission: string;
  readonly fence: number | undefined;
}

/** The pauses between two looks whether the file is free. */
const LOOK_MS_MIN = 100;
const LOOK_MS_MAX = 2_000;
/** The time for the end of a wait that is given up. */
const GIVE_UP_MS = 5_000;
/** A lock is renewed after this share of its time, so that two renewals may fail. */
const RENEWAL_SHARE = 1 / 3;

/** Throws CONFLICT if another agent still holds the file when the wait is over. */
export async function acquireFileLock(
  parts: LockParts,
  place: LockPlace,
  path: string,
  options: LockOptions,
): Promise<FileLock> {
  const result = await holdFile(parts, place, path, options);
  return new FileLock(parts, place, result, options.timeoutMs);
}

/** Without renewal. Throws CONFLICT like {@link acquireFileLock}. */
export async function holdFile(
  parts: LockParts,
  place: LockPlace,
  path: string,
  { signal, waitMs = 0, ...terms }: LockOptions,
): Promise<LockResult> {
  const { delivery, clock } = parts;
  const end = clock.monotonic() + waitMs;
  const request = async (wait: number): Promise<LockResult> => {
    const body = toSnake({ path, waitMs: wait, ...terms });
    const options = { fence: place.fence, signal };
    return resultOf(await delivery.deliverNow("lock_acquire", place.mission, body, options));
  };
  const first = await request(waitMs);
  const wait = { end, request, signal };
  const result = first.state === "waiting" ? await waited(parts, place, first, wait) : first;
  if (result.state === "held") return result;
  const { heldBy: held_by, checkpointId: checkpoint_id } = result;
  throw new FleetError("CONFLICT", "the wait for the file is over, and another agent holds it", {
    details: { path, held_by, ...(checkpoint_id !== undefined && { checkpoint_id }) },
  });
}

interface Wait {
  /** On the monotonic clock. */
  readonly end: number;
  readonly request: (waitMs: number) => Promise<LockResult>;
  readonly signal: AbortSignal | undefined;
}

/** The answer at the end of the wait. A wait that throws gives up its place, so that no file goes to an agent that is gone. */
async function waited(
  parts: LockParts,
  place: LockPlace,
  first: LockResult,
  { end, request, signal }: Wait,
): Promise<LockResult> {
  const { queries, clock } = parts;
  let result = first;
  try {
    for (let pause = LOOK_MS_MIN; result.state === "waiting"; pause = Math.min(LOOK_MS_MAX, pause * 2)) {
      const { lockId } = result;
      await clock.sleep(Math.max(1, Math.min(pause, end - clock.monotonic())), signal);
      signal?.throwIfAborted();
      const query = { missionId: place.mission, path: result.path, signal };
      const [lock] = (await queries.send("locks", query)).locks;
      const waits = lock?.waiters.some(({ lock_id }) => lock_id === lockId) === true;
      // The same agent gets the answer of its lock again; after the wait the request is refused.
      if (!waits || clock.monotonic() >= end)
        result = await request(Math.max(0, Math.floor(end - clock.monotonic())));
    }
    return result;
  } catch (error) {
    await giveUp(parts, place, first.path);
    throw error;
  }
}

/** Ends the wait, or the lock if the wait has just ended with it. Without an answer, the place ends with its time. */
async function giveUp({ delivery }: LockParts, { mission, fence }: LockPlace, path: string): Promise<void> {
  const options = { fence, deadlineMs: GIVE_UP_MS };
  await delivery.deliverNow("lock_release", mission, { path }, options).catch(() => {});
}

export class FileLock implements AsyncDisposable {
  readonly path: string;
  /** Grows with every acquisition of the file: a store of the agent's own may refuse a lower one. */
  readonly fence: number;
  readonly #parts: LockParts;
  readonly #place: LockPlace;
  readonly #timeoutMs: number;
  readonly #ended = new AbortController();
  readonly #lost = new AbortController();
  readonly #renewals: Promise<void>;

  constructor(parts: LockParts, place: LockPlace, result: LockResult, timeoutMs: number | undefined) {
    this.#parts = parts;
    this.#place = place;
    this.path = result.path;
    this.fence = result.fence ?? 0;
    this.#timeoutMs = timeoutMs ?? LIMITS.lock_timeout_ms_default;
    this.#renewals = this.#renew();
  }

  /** Aborts when the agent has lost the file: it must not change it any more. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** May be called again. A lock that is lost is released already. */
  async release(): Promise<void> {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    await this.#renewals;
    if (this.#lost.signal.aborted) return;
    const { mission, fence } = this.#place;
    const body = { path: this.path };
    await this.#parts.delivery
      .deliverNow("lock_release", mission, body, { fence })
      .catch((error: unknown) => {
        if (!isLost(error)) throw error;
      });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  async #renew(): Promise<void> {
    const { clock, delivery } = this.#parts;
    const { mission, fence } = this.#place;
    const body = toSnake({ path: this.path, timeoutMs: this.#timeoutMs });
    let end = clock.monotonic() + this.#timeoutMs;
    while (!this.#ended.signal.aborted) {
      await clock.sleep(this.#timeoutMs * RENEWAL_SHARE, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
      const sentAt = clock.monotonic();
      try {
        await delivery.deliverNow("lock_renew", mission, body, { fence });
        end = sentAt + this.#timeoutMs;
      } catch (error) {
        // While the fleet is unavailable the lock holds until its time is over.
        if (!isLost(error) && clock.monotonic() < end) continue;
        this.#lost.abort(error);
        return;
      }
    }
  }
}

const LOST: ReadonlySet<string> = new Set(["NOT_FOUND", "CONFLICT", "FENCED"]);
const isLost = (error: unknown): boolean => error instanceof FleetError && LOST.has(error.code);
