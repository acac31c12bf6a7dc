/**
 * Replaces the sources of time and randomness of Node for the whole real process, and the names of process and machine. During a simulation they are
 * seeded, otherwise real. To be installed before any module of Fleet is loaded, because a module may keep a function of `node:crypto` or
 * `node:timers/promises`.
 */
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import timers from "node:timers";
import timersPromises from "node:timers/promises";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { V7Generator } from "uuidv7";
import { TIMER_MS_MAX } from "../../../shared/runtime/clock.ts";
import { ed25519KeyOf } from "./ed25519.ts";
import { currentProcess } from "./processes.ts";
import { type ActiveSimulation, activeSimulation } from "./run.ts";
import type { ScheduledEvent } from "./schedule.ts";

type Callback = (...args: unknown[]) => void;
type AnyFunction = (...args: never[]) => unknown;

/** The time of one turn of the event loop, so that code that waits in turns sees time pass. */
const TURN_MS = 0.01;

/** A timer of the simulation, with the functions of Node's. */
class SimulatedTimer {
  readonly #simulation: ActiveSimulation;
  readonly #afterMs: number;
  readonly #callback: () => void;
  readonly #repeats: boolean;
  #event: ScheduledEvent;

  constructor(simulation: ActiveSimulation, afterMs: number, callback: () => void, repeats: boolean) {
    this.#simulation = simulation;
    this.#afterMs = afterMs;
    this.#callback = callback;
    this.#repeats = repeats;
    this.#event = this.#enter();
  }

  #enter(): ScheduledEvent {
    return this.#simulation.schedule.enter(this.#afterMs, () => {
      if (this.#repeats) this.#event = this.#enter();
      this.#callback();
    });
  }

  cancel(): void {
    this.#event.isCancelled = true;
  }

  refresh(): this {
    this.cancel();
    this.#event = this.#enter();
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  close(): this {
    this.cancel();
    return this;
  }

  [Symbol.dispose](): void {
    this.cancel();
  }
}

/** The delay as Node takes it. */
const delayOf = (ms: unknown): number => {
  const number = Number(ms);
  return number >= 1 && number <= TIMER_MS_MAX ? Math.trunc(number) : 1;
};

/** Replaces a function of an object; `simulated` takes its place during a simulation. */
function replace(
  owner: object,
  name: string,
  simulated: (simulation: ActiveSimulation, args: readonly unknown[]) => unknown,
): void {
  const real = Reflect.get(owner, name) as (...args: unknown[]) => unknown;
  const replaced = function (this: unknown, ...args: unknown[]): unknown {
    const simulation = activeSimulation();
    return simulation === undefined ? real.apply(this, args) : simulated(simulation, args);
  };
  Object.assign(replaced, real);
  Object.defineProperty(owner, name, { value: replaced, configurable: true, writable: true });
}

function replaceTimers(owner: object): void {
  const timer =
    (repeats: boolean) =>
    (simulation: ActiveSimulation, [callback, ms, ...rest]: readonly unknown[]) =>
      new SimulatedTimer(simulation, delayOf(ms), () => (callback as Callback)(...rest), repeats);
  replace(owner, "setTimeout", timer(false));
  replace(owner, "setInterval", timer(true));
  replace(owner, "setImmediate", (simulation, [callback, ...rest]) => {
    return new SimulatedTimer(simulation, TURN_MS, () => (callback as Callback)(...rest), false);
  });
  for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) {
    const real = Reflect.get(owner, name) as (timer: unknown) => void;
    const clear = (timer: unknown): void => (timer instanceof SimulatedTimer ? timer.cancel() : real(timer));
    Object.defineProperty(owner, name, { value: clear, configurable: true, writable: true });
  }
}

interface SleepOptions {
  readonly signal?: AbortSignal;
}

function sleep(simulation: ActiveSimulation, ms: number, value: unknown, { signal }: SleepOptions = {}) {
  return new Promise<unknown>((resolve, reject) => {
    const abort = (): void => {
      timer.cancel();
      reject(
        Object.assign(new Error("The operation was aborted"), { name: "AbortError", code: "ABORT_ERR" }),
      );
    };
    const timer = new SimulatedTimer(
      simulation,
      ms,
      () => {
        signal?.removeEventListener("abort", abort);
        resolve(value);
      },
      false,
    );
    if (signal?.aborted === true) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

function replaceTimerPromises(): void {
  replace(timersPromises, "setTimeout", (simulation, [ms, value, options]) =>
    sleep(simulation, delayOf(ms), value, options as SleepOptions),
  );
  replace(timersPromises, "setImmediate", (simulation, [value, options]) =>
    sleep(simulation, TURN_MS, value, options as SleepOptions),
  );
  for (const owner of [globalThis, timers])
    for (const name of ["setTimeout", "setImmediate"] as const)
      Object.defineProperty(owner[name], promisify.custom, { value: timersPromises[name] as AnyFunction });
  replace(AbortSignal, "timeout", (simulation, [ms]) => {
    const controller = new AbortController();
    const abort = (): void =>
      controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError"));
    new SimulatedTimer(simulation, delayOf(ms), abort, false);
    return controller.signal;
  });
}

function replaceClocks(): void {
  const RealDate = Date;
  replace(RealDate, "now", ({ schedule }) => schedule.wall);
  const SeededDate = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [RealDate.now()] : args, newTarget) as object,
    apply: () => new RealDate(RealDate.now()).toString(),
  });
  RealDate.prototype.constructor = SeededDate;
  globalThis.Date = SeededDate;
  replace(performance, "now", ({ schedule }) => schedule.now);
  const realHrtime = process.hrtime;
  const nanoseconds = ({ schedule }: ActiveSimulation) => BigInt(schedule.instantUs()) * 1_000n;
  const hrtime = (since?: [number, number]): [number, number] => {
    const simulation = activeSimulation();
    if (simulation === undefined) return realHrtime(since);
    const now = Number(nanoseconds(simulation)) - (since === undefined ? 0 : since[0] * 1e9 + since[1]);
    return [Math.floor(now / 1e9), now % 1e9];
  };
  hrtime.bigint = () => {
    const simulation = activeSimulation();
    return simulation === undefined ? realHrtime.bigint() : nanoseconds(simulation);
  };
  process.hrtime = hrtime;
}

function fill(
  { word }: ActiveSimulation,
  into: ArrayBufferView,
  offset = 0,
  size = into.byteLength - offset,
) {
  const bytes = new Uint8Array(into.buffer, into.byteOffset + offset, size);
  for (let at = 0, bits = 0; at < bytes.length; at += 1, bits >>>= 8) {
    if (at % 4 === 0) bits = word();
    bytes[at] = bits & 0xff;
  }
  return into;
}

function uuid(simulation: ActiveSimulation): string {
  const hex = (fill(simulation, Buffer.alloc(16)) as Buffer).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
}

const ED25519_BYTES = 32;

function replaceRandomness(): void {
  replace(Math, "random", ({ random }) => random());
  replace(crypto, "randomBytes", (simulation, [size]) => fill(simulation, Buffer.alloc(size as number)));
  replace(crypto, "randomFillSync", (simulation, [into, offset, size]) =>
    fill(simulation, into as Uint8Array, offset as number | undefined, size as number | undefined),
  );
  replace(crypto, "randomInt", ({ word }, [from, to]) => {
    const [least, end] = to === undefined ? [0, from as number] : [from as number, to as number];
    return least + (word() % (end - least));
  });
  for (const owner of [crypto, globalThis.crypto]) replace(owner, "randomUUID", uuid);
  replace(crypto, "generateKeyPairSync", (simulation) => {
    const privateKey = ed25519KeyOf(fill(simulation, Buffer.alloc(ED25519_BYTES)) as Buffer);
    return { privateKey, publicKey: crypto.createPublicKey(privateKey) };
  });
  // That of `node:crypto` calls this one.
  replace(globalThis.crypto, "getRandomValues", (simulation, [into]) => fill(simulation, into as Uint8Array));
  replaceUuids();
}

/** The generator of the module `uuidv7` keeps a clock and random words from one simulation to the next, so each gets its own. */
function replaceUuids(): void {
  const generators = new WeakMap<ActiveSimulation, V7Generator>();
  const real = V7Generator.prototype.generate;
  V7Generator.prototype.generate = function () {
    const simulation = activeSimulation();
    if (simulation === undefined) return real.call(this);
    let own = generators.get(simulation);
    if (own === undefined) {
      own = new V7Generator({ nextUint32: simulation.word });
      generators.set(simulation, own);
    }
    return real.call(own);
  };
}

const PIDS = 0x10000;

/** Heartbeats and exit reports bear them. */
function replaceNames(): void {
  const realPid = process.pid;
  const pidOf = (name: string): number => 1 + (crc32(name) % PIDS);
  const get = (): number =>
    activeSimulation() === undefined ? realPid : pidOf(currentProcess()?.name ?? "outside");
  Object.defineProperty(process, "pid", { get, configurable: true });
  replace(os, "hostname", () => "simulated");
  replace(os, "userInfo", () => ({ username: "simulated" }));
}

/** With a callback, a thread of the machine would sign and verify, and answer at a real time: that is done at once, and answered in a later turn. */
function replaceSignatures(): void {
  for (const name of ["sign", "verify"]) {
    const real = Reflect.get(crypto, name) as (...args: unknown[]) => unknown;
    replace(crypto, name, (simulation, args) => {
      const callback = args.at(-1);
      if (typeof callback !== "function") return real(...args);
      const answer = (...results: unknown[]) =>
        void new SimulatedTimer(simulation, TURN_MS, () => (callback as Callback)(...results), false);
      try {
        answer(null, real(...args.slice(0, -1)));
      } catch (error) {
        answer(error);
      }
      return undefined;
    });
  }
}

/** Once in a process. */
export function replaceGlobals(): void {
  replaceTimers(globalThis);
  replaceTimers(timers);
  replaceTimerPromises();
  replaceClocks();
  replaceRandomness();
  replaceNames();
  replaceSignatures();
  syncBuiltinESMExports();
}
