/**
 * A supervised process of the fleet under test: started again when it is killed or ends by itself, as the system's supervisor would.
 * What was done to it and what it did by itself is counted apart.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { projectRoot } from "../../../harness/project-root.ts";
import type { Dying } from "./kill-points.ts";

export interface ProcessOptions {
  readonly name: string;
  /** Relative to the project's folder. */
  readonly program: string;
  /** JSON for its first argument; told how often it was started before. */
  readonly parameters: (incarnation: number) => object;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly onMessage?: (message: unknown) => void;
  /** Told of the moment that the process chose to be killed at. */
  readonly onDying?: (moment: string) => void;
}

/** An end that nobody asked for. */
export interface OwnEnding {
  readonly process: string;
  readonly code: number | null;
  readonly signal: string | null;
  /** Whether it had come up. A start that fails because a fault is on ends in one line and is tried again. */
  readonly wasReady: boolean;
}

const PAUSE_MS = { first: 100, last: 2_000 };
/** Until a process is started again that asked to be killed. */
const DEAD_MS = 200;
const STOP_MS = 30_000;

export class SupervisedProcess {
  readonly #options: ProcessOptions;
  readonly #endings: OwnEnding[] = [];
  #child: ChildProcess | undefined;
  #starts = 0;
  #isWanted = true;
  #isReady = Promise.withResolvers<void>();
  #downUntil = 0;
  #killed: ChildProcess | undefined;
  #watching: Promise<void>;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.#watching = this.#watch();
  }

  get name(): string {
    return this.#options.name;
  }

  get starts(): number {
    return this.#starts;
  }

  get endings(): readonly OwnEnding[] {
    return this.#endings;
  }

  /** Resolves when it is up, this time or after its next start. */
  async ready(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    const { promise } = this.#isReady;
    const isUp = await Promise.race([promise.then(() => true), sleep(timeoutMs, false, { ref: false })]);
    // It may have been killed and started again since.
    return isUp && promise !== this.#isReady.promise
      ? this.ready(Math.max(0, until - performance.now()))
      : isUp;
  }

  /** SIGKILL; it is started again after `downMs`. */
  kill(downMs: number): void {
    this.#downUntil = performance.now() + downMs;
    this.#killed = this.#child;
    this.#child?.kill("SIGKILL");
  }

  pause(): void {
    this.#child?.kill("SIGSTOP");
  }

  resume(): void {
    this.#child?.kill("SIGCONT");
  }

  /** Lost when the process is down: whoever starts next begins in the usual mode. */
  send(message: object): void {
    const child = this.#child;
    if (child?.connected) child.send(message, () => {});
  }

  /** SIGTERM, or a message where the program knows one; SIGKILL after half a minute. How it ended; null when it ended well. */
  async stop(
    how: "SIGTERM" | { readonly message: object },
  ): Promise<{ code: number | null; signal: string | null } | null> {
    this.#isWanted = false;
    const child = this.#child;
    const isGone = child === undefined || child.exitCode !== null || child.signalCode !== null;
    const hard = setTimeout(() => child?.kill("SIGKILL"), STOP_MS);
    if (!isGone) {
      if (how === "SIGTERM") child.kill(how);
      else this.send(how.message);
    }
    await this.#watching;
    clearTimeout(hard);
    if (isGone || child.exitCode === 0) return null;
    return { code: child.exitCode, signal: child.signalCode };
  }

  /** For the end of the program itself: at once, whatever state it is in. */
  destroy(): void {
    this.#isWanted = false;
    this.#child?.kill("SIGKILL");
  }

  async #watch(): Promise<void> {
    let pauseMs = PAUSE_MS.first;
    while (this.#isWanted) {
      const child = this.#start();
      const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
      const wasReady = this.#renewReady();
      if (!this.#isWanted) return;
      if (this.#killed === child) {
        pauseMs = PAUSE_MS.first;
        await this.#waitUntil(this.#downUntil);
      } else {
        this.#endings.push({ process: this.name, code, signal, wasReady });
        if (wasReady) pauseMs = PAUSE_MS.first;
        await this.#waitUntil(performance.now() + pauseMs);
        pauseMs = Math.min(2 * pauseMs, PAUSE_MS.last);
      }
    }
  }

  async #waitUntil(at: number): Promise<void> {
    while (this.#isWanted && performance.now() < at)
      await sleep(Math.min(50, Math.max(1, at - performance.now())));
  }

  #wasReady = false;

  #renewReady(): boolean {
    const was = this.#wasReady;
    this.#wasReady = false;
    this.#isReady = Promise.withResolvers();
    return was;
  }

  #start(): ChildProcess {
    const { program, parameters, env, logFile, onMessage, onDying } = this.#options;
    const log = openSync(logFile, "a");
    const child = spawn(process.execPath, [program, JSON.stringify(parameters(this.#starts))], {
      cwd: projectRoot,
      env: { ...foreign(), ...env },
      stdio: ["ignore", log, log, "ipc"],
    });
    closeSync(log);
    this.#starts += 1;
    this.#child = child;
    child.on("error", () => {});
    child.on("message", (message) => {
      if ((message as { ready?: boolean }).ready === true) {
        this.#wasReady = true;
        this.#isReady.resolve();
      } else if (typeof (message as Partial<Dying>).dying === "string") {
        if (child !== this.#child) return;
        onDying?.((message as Dying).dying);
        this.kill(DEAD_MS);
      } else onMessage?.(message);
    });
    return child;
  }

  /** The end of its log, for people. */
  logTail(): string {
    return readFileSync(this.#options.logFile, "utf8").slice(-2_000);
  }
}

/** Without the caller's settings: one that names a store in use would fill it. */
function foreign(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("FLEET_")));
}
