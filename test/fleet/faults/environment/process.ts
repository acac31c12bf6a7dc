/**
 * A supervised process of the fleet under test. It is restarted after a kill and after an unexpected exit, as a supervisor would do. Kills
 * and unexpected exits are counted separately.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { projectRoot } from "../../../harness/project-root.ts";
import type { KillRequest } from "./kill-points.ts";

export interface ProcessOptions {
  readonly name: string;
  /** The path of the program, relative to the folder of its tree. */
  readonly program: string;
  /** Default: the folder of this tree. */
  readonly tree?: string;
  /** Returns the program's first argument, as JSON; `incarnation` is the number of earlier starts. */
  readonly parameters: (incarnation: number) => object;
  /** The address that answers with 200 when the process is ready. Default: the process sends a message. */
  readonly readyUrl?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly onMessage?: (message: unknown) => void;
  /** Called with the kill point at which the process requests its kill. */
  readonly onKillPoint?: (point: string) => void;
}

/** An end without a kill or a stop. */
export interface OwnEnding {
  readonly process: string;
  readonly code: number | null;
  readonly signal: string | null;
  /** Whether the process was running. A start may fail because of a fault; it is then repeated. */
  readonly wasReady: boolean;
}

const PAUSE_MS = { first: 100, last: 2_000 };
/** The time until a process that requested its kill is restarted. */
const RESTART_MS = 200;
/** On a busy machine agents need this long to hand over their spools. */
const STOP_MS = 90_000;
/** On a busy machine a start takes a minute and more. */
const READY_MS = 180_000;
const READY_POLL_MS = 25;

export class SupervisedProcess {
  #options: ProcessOptions;
  readonly #endings: OwnEnding[] = [];
  #child: ChildProcess | undefined;
  #starts = 0;
  #isWanted = true;
  #isReady = Promise.withResolvers<void>();
  #downUntil = 0;
  #killed: ChildProcess | undefined;
  #replaced: ChildProcess | undefined;
  #replacements = 0;
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

  /** The starts in place of a process that was stopped for it. */
  get replacements(): number {
    return this.#replacements;
  }

  get endings(): readonly OwnEnding[] {
    return this.#endings;
  }

  /** Resolves with true when the process is running, now or after its next start. */
  async ready(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    const { promise } = this.#isReady;
    const isUp = await Promise.race([promise.then(() => true), sleep(timeoutMs, false, { ref: false })]);
    // The process may have been killed and restarted meanwhile.
    return isUp && promise !== this.#isReady.promise
      ? this.ready(Math.max(0, until - performance.now()))
      : isUp;
  }

  /** Sends SIGKILL; the process is restarted after `downMs`. */
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

  /** Stops the process by SIGTERM and starts another program in its place, under the same name. Throws if that one does not become ready. */
  async replace(options: ProcessOptions): Promise<void> {
    const child = this.#child;
    this.#options = options;
    this.#replaced = child;
    this.#replacements += 1;
    const { promise } = this.#isReady;
    const killTimer = setTimeout(() => child?.kill("SIGKILL"), STOP_MS);
    child?.kill("SIGTERM");
    // A child that had ended by itself is replaced already, or after its pause.
    while (promise === this.#isReady.promise && child === this.#child) await sleep(READY_POLL_MS);
    clearTimeout(killTimer);
    if (!(await this.ready(READY_MS)))
      throw new Error(`${this.name} did not start again:\n${this.logTail()}`);
  }

  /** Sends a message, which is lost when the process is down; it restarts in the normal mode. */
  send(message: object): void {
    const child = this.#child;
    if (child?.connected) child.send(message, () => {});
  }

  /** Stops the process by SIGTERM or a message, after its time by SIGKILL. Resolves with its end; null after a clean stop. */
  async stop(
    how: "SIGTERM" | { readonly message: object },
  ): Promise<{ code: number | null; signal: string | null } | null> {
    this.#isWanted = false;
    const child = this.#child;
    const hasEnded = child === undefined || child.exitCode !== null || child.signalCode !== null;
    const killTimer = setTimeout(() => child?.kill("SIGKILL"), STOP_MS);
    if (!hasEnded) {
      if (how === "SIGTERM") child.kill(how);
      else this.send(how.message);
    }
    await this.#watching;
    clearTimeout(killTimer);
    if (hasEnded || child.exitCode === 0) return null;
    return { code: child.exitCode, signal: child.signalCode };
  }

  /** Kills the process at once, at the end of the program. */
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
      if (this.#replaced === child) {
        pauseMs = PAUSE_MS.first;
        // A clean stop has the code 0, also while requests are open.
        if (code !== 0) this.#endings.push({ process: this.name, code, signal, wasReady: true });
      } else if (this.#killed === child) {
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
    const { program, tree = projectRoot, parameters, env, logFile, onMessage, onKillPoint } = this.#options;
    const log = openSync(logFile, "a");
    const child = spawn(process.execPath, [program, JSON.stringify(parameters(this.#starts))], {
      cwd: tree,
      env: { ...inheritedEnvironment(), ...env },
      stdio: ["ignore", log, log, "ipc"],
    });
    closeSync(log);
    this.#starts += 1;
    this.#child = child;
    child.on("error", () => {});
    void this.#probe(child);
    child.on("message", (message) => {
      if ((message as { ready?: boolean }).ready === true) {
        this.#wasReady = true;
        this.#isReady.resolve();
      } else if (typeof (message as Partial<KillRequest>).kill_at === "string") {
        if (child !== this.#child) return;
        onKillPoint?.((message as KillRequest).kill_at);
        this.kill(RESTART_MS);
      } else onMessage?.(message);
    });
    return child;
  }

  async #probe(child: ChildProcess): Promise<void> {
    const { readyUrl } = this.#options;
    while (readyUrl !== undefined && child.exitCode === null && child.signalCode === null) {
      if (
        await fetch(readyUrl).then(
          ({ ok }) => ok,
          () => false,
        )
      ) {
        if (child !== this.#child) return;
        this.#wasReady = true;
        return this.#isReady.resolve();
      }
      await sleep(READY_POLL_MS, undefined, { ref: false });
    }
  }

  /** The end of the log, for an error message. */
  logTail(): string {
    return readFileSync(this.#options.logFile, "utf8").slice(-2_000);
  }
}

/** The environment without the caller's settings: a setting that names a store in use would fill that store. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("FLEET_")));
}
