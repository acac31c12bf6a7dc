/**
 * Agents in tmux windows, for programs that need a terminal and operators who want to watch. The tmux server outlives the runner and
 * knows how each program ended. The prompt is pasted, and Enter is sent separately until the window shows that the program took it.
 */
import { createHash } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../shared/runtime/clock.ts";
import { readJson, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { agentFiles, readExit } from "./agent-folder.ts";
import { type Exit, failedToStart, type LaunchedAgent, type Launcher, type LaunchSpec } from "./launcher.ts";
import { signalGroup } from "./process-group.ts";
import { type Pane, TmuxServer } from "./tmux-server.ts";

const POLL_MS = 500;
/** A window that shows the same text twice in a row is waiting for input. */
const QUIET_MS = 400;
const READY_MS = 60_000;
/** The pause between text and key. Programs treat one burst of input as one paste. */
const KEY_DELAY_MS = 150;
const TAKEN_MS = 600;
const SHOWN_MS = 10_000;
const ENTER_ATTEMPTS = 6;
const KILLED_MS = 5_000;
const UNKNOWN_POLLS = 20;

interface WindowNote {
  readonly pane: string;
  readonly startedAt: string;
  readonly prompted: boolean;
}

/** The program of the window ends and starts again; its end is no exit of the agent. */
interface Window {
  isRestarting: boolean;
}

export class TmuxLauncher implements Launcher {
  readonly #server: TmuxServer;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  /** `root` is the runner's folder, which names the server. */
  constructor(root: string, clock: Clock) {
    this.#server = new TmuxServer(socketOf(root), join(root, "tmux.conf"));
    this.#clock = clock;
  }

  knows(folder: string): boolean {
    return readJson(agentFiles(folder).window) !== undefined;
  }

  async start(spec: LaunchSpec): Promise<LaunchedAgent> {
    const note = readJson<WindowNote>(agentFiles(spec.folder).window) ?? (await this.#opened(spec));
    const pane = await this.#pane(note.pane);
    const window: Window = { isRestarting: false };
    const exited = this.#recordedExit(spec, note, window);
    return {
      pid: pane?.pid ?? null,
      isStarted: true,
      exited,
      terminal: {
        deliver: (path) => this.#delivered(spec, note.pane, path),
        restart: (graceMs) => this.#restart(spec, note.pane, graceMs, window),
      },
      stop: (graceMs) => this.#stop(note.pane, exited, graceMs),
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  async #opened(spec: LaunchSpec): Promise<WindowNote> {
    // A kill between opening the window and recording it leaves a window with the name of the agent.
    const before = (await this.#server.panes()).find(({ window }) => window === spec.name);
    const { NODE_OPTIONS: _, ...env } = spec.env;
    const pane = before?.id ?? (await this.#server.open(spec.name, spec.cwd, ownEnv(env), spec.argv));
    const note = { pane, startedAt: this.#time(), prompted: spec.prompt.channel !== "paste" };
    writeWhole(agentFiles(spec.folder).window, JSON.stringify(note));
    return note;
  }

  async #recordedExit(spec: LaunchSpec, note: WindowNote, window: Window): Promise<Exit> {
    const exit = readExit(spec.folder);
    if (exit !== undefined) return exit;
    const ended = await this.#watched(spec, note, window);
    writeWhole(agentFiles(spec.folder).exit, JSON.stringify(ended));
    await this.#server.closeWindow(note.pane).catch(() => {});
    return ended;
  }

  async #watched(spec: LaunchSpec, note: WindowNote, window: Window): Promise<Exit> {
    const { signal } = this.#closing;
    if (!note.prompted && !(await this.#prompted(spec, note)))
      return {
        ...failedToStart("the prompt could not be delivered", this.#time()),
        startedAt: note.startedAt,
      };
    for (let unknownPolls = 0; ; ) {
      const pane = await this.#watchedPane(note.pane);
      if (window.isRestarting) {
        await this.#clock.sleep(POLL_MS, signal);
        continue;
      }
      if (signal.aborted) return new Promise(() => {});
      const ended = { ...failedToStart("", this.#time()), problem: null, startedAt: note.startedAt };
      if (pane === undefined) return { ...ended, lost: true };
      const known = pane.code !== null || pane.signal !== null;
      if (pane.dead && !known) {
        // The window closes a moment before the server learns how its program ended, and sometimes the server misses it.
        await this.#server.reap().catch(() => {});
        unknownPolls += 1;
      }
      if (unknownPolls > UNKNOWN_POLLS) return { ...ended, lost: true };
      if (pane.dead && known) {
        // The exit counts even without the output.
        await this.#keepOutput(spec, pane).catch(() => {});
        return { ...ended, code: pane.signal === null ? pane.code : null, signal: signalName(pane.signal) };
      }
      await this.#clock.sleep(POLL_MS, signal);
    }
  }

  /** False if the program is alive and never took the prompt. The next poll finds a program that has ended. */
  async #prompted(spec: LaunchSpec, note: WindowNote): Promise<boolean> {
    const taken = await this.#delivered(spec, note.pane, spec.prompt.path).catch(async (error: unknown) => {
      if (await this.#isAlive(note.pane)) throw error;
      return false;
    });
    if (taken) writeWhole(agentFiles(spec.folder).window, JSON.stringify({ ...note, prompted: true }));
    return taken || !(await this.#isAlive(note.pane));
  }

  async #delivered(spec: LaunchSpec, pane: string, path: string): Promise<boolean> {
    const { paste } = agentFiles(spec.folder);
    const before = await this.#quiet(pane);
    if (before === undefined) return false;
    writeWhole(paste, pasteable(readFileSync(path, "utf8")));
    await this.#server.paste(pane, `fleet-${spec.name}`, paste);
    // The server has its text now.
    rmSync(paste, { force: true });
    // A program that does not show the text may ask for a permission, which Enter would give.
    if (!(await this.#isShown(pane, before))) return false;
    await this.#clock.sleep(KEY_DELAY_MS);
    return this.#submitted(pane);
  }

  async #isShown(pane: string, before: string): Promise<boolean> {
    const end = this.#clock.monotonic() + SHOWN_MS;
    do {
      if (await this.#changed(pane, before)) return true;
    } while (this.#clock.monotonic() < end && (await this.#isAlive(pane)));
    return false;
  }

  /** Sends Enter, and repeats it while the window does not change: programs lose a key right after a paste. */
  async #submitted(pane: string): Promise<boolean> {
    for (let tries = 1; tries <= ENTER_ATTEMPTS; tries += 1) {
      const before = await this.#server.screen(pane);
      await this.#server.enter(pane);
      if (await this.#changed(pane, before, TAKEN_MS * tries)) return true;
    }
    return false;
  }

  /** The screen once it stops changing; undefined if it stays empty. */
  async #quiet(pane: string): Promise<string | undefined> {
    const end = this.#clock.monotonic() + READY_MS;
    for (let last = ""; this.#clock.monotonic() < end; ) {
      const now = await this.#server.screen(pane);
      if (now.trim() !== "" && now === last) return now;
      last = now;
      await this.#clock.sleep(QUIET_MS, this.#closing.signal);
    }
    return undefined;
  }

  async #changed(pane: string, before: string, withinMs = TAKEN_MS): Promise<boolean> {
    const end = this.#clock.monotonic() + withinMs;
    do {
      if ((await this.#server.screen(pane)) !== before) return true;
      await this.#clock.sleep(50);
    } while (this.#clock.monotonic() < end);
    return false;
  }

  /** If the runner is killed in between, the next one finds an ended program and reports it. */
  async #restart(spec: LaunchSpec, id: string, graceMs: number, window: Window): Promise<void> {
    window.isRestarting = true;
    try {
      const pane = await this.#pane(id);
      if (pane !== undefined && !pane.dead) {
        signalGroup(pane.pid, "SIGTERM");
        if (!(await this.#hasEnded(id, graceMs))) signalGroup(pane.pid, "SIGKILL");
        await this.#hasEnded(id, KILLED_MS);
      }
      const { NODE_OPTIONS: _, ...env } = spec.env;
      await this.#server.respawn(id, spec.cwd, ownEnv(env), spec.resumeArgv ?? spec.argv);
    } finally {
      window.isRestarting = false;
    }
  }

  async #hasEnded(id: string, withinMs: number): Promise<boolean> {
    const end = this.#clock.monotonic() + withinMs;
    do {
      if (!(await this.#isAlive(id))) return true;
      await this.#clock.sleep(100);
    } while (this.#clock.monotonic() < end);
    return false;
  }

  async #keepOutput({ folder, logBytes }: LaunchSpec, { id }: Pane): Promise<void> {
    const text = Buffer.from(await this.#server.screen(id, true));
    writeWhole(agentFiles(folder).output, text.subarray(Math.max(0, text.length - logBytes)));
  }

  async #stop(id: string, exited: Promise<Exit>, graceMs: number): Promise<void> {
    const ended = exited.then(() => true);
    const within = (ms: number) => Promise.race([ended, this.#clock.sleep(ms).then(() => false)]);
    const pane = await this.#pane(id);
    // The program of a window is the leader of its process group.
    if (pane !== undefined && !pane.dead) signalGroup(pane.pid, "SIGTERM");
    if (await within(graceMs)) return;
    if (pane !== undefined && !pane.dead) signalGroup(pane.pid, "SIGKILL");
    await within(KILLED_MS);
  }

  async #pane(id: string): Promise<Pane | undefined> {
    return (await this.#server.panes()).find((pane) => pane.id === id);
  }

  /** Retries while tmux does not answer: its program may be alive, and reporting its end would start a second agent for the task. */
  async #watchedPane(id: string): Promise<Pane | undefined> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        return await this.#pane(id);
      } catch {
        await this.#clock.sleep(POLL_MS, signal);
      }
    }
    return undefined;
  }

  async #isAlive(id: string): Promise<boolean> {
    return (await this.#pane(id))?.dead === false;
  }

  #time(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

/** A short name, because socket paths are limited. Every runner of the folder gets the same name. */
function socketOf(root: string): string {
  return `fleet-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`;
}

/** A window inherits the runner's environment from the tmux server. The rest is passed as arguments, which other users can see. */
function ownEnv(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => process.env[name] !== value));
}

/** The text without control characters, which could end the paste and send keys. */
export function pasteable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are removed.
  return text.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}

function signalName(number: number | null): string | null {
  if (number === null) return null;
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? String(number);
}
