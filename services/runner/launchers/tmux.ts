/**
 * Agents in windows of tmux, for programs that want a terminal and for people who want to watch. The tmux server outlives the runner
 * and knows how each program ended; the prompt is pasted and then, apart from it, sent off, until the window shows that it was taken.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../shared/runtime/clock.ts";
import { readJson, writeWhole } from "../files.ts";
import { agentFiles, readExit } from "./agent-folder.ts";
import { type Exit, failedToStart, type LaunchedAgent, type Launcher, type LaunchSpec } from "./launcher.ts";
import { signalGroup } from "./process-group.ts";
import { type Pane, TmuxServer } from "./tmux-server.ts";

const LOOK_MS = 500;
/** A window that shows the same twice in a row is waiting for somebody. */
const QUIET_MS = 400;
const READY_MS = 60_000;
/** Between the text and the key: programs take what comes in one burst for one paste. */
const APART_MS = 150;
const TAKEN_MS = 600;
const TRIES = 6;
const KILLED_MS = 5_000;
const UNKNOWN_LOOKS = 20;

interface WindowNote {
  readonly pane: string;
  readonly startedAt: string;
  readonly prompted: boolean;
}

export class TmuxLauncher implements Launcher {
  readonly #server: TmuxServer;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  /** `root`: the runner's folder; it names the server. */
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
    const exited = this.#life(spec, note);
    return {
      pid: pane?.pid ?? null,
      exited,
      stop: (graceMs) => this.#stop(note.pane, exited, graceMs),
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  async #opened(spec: LaunchSpec): Promise<WindowNote> {
    // A kill between opening the window and the note of it left the window, under the agent's own name.
    const before = (await this.#server.panes()).find(({ window }) => window === spec.name);
    const { NODE_OPTIONS: _, ...env } = spec.env;
    const pane = before?.id ?? (await this.#server.open(spec.name, spec.cwd, ownEnv(env), spec.argv));
    const note = { pane, startedAt: this.#time(), prompted: spec.prompt.channel !== "paste" };
    writeWhole(agentFiles(spec.folder).window, JSON.stringify(note));
    return note;
  }

  async #life(spec: LaunchSpec, note: WindowNote): Promise<Exit> {
    const exit = readExit(spec.folder);
    if (exit !== undefined) return exit;
    const ended = await this.#watched(spec, note);
    writeWhole(agentFiles(spec.folder).exit, JSON.stringify(ended));
    await this.#server.closeWindow(note.pane).catch(() => {});
    return ended;
  }

  async #watched(spec: LaunchSpec, note: WindowNote): Promise<Exit> {
    const { signal } = this.#closing;
    if (!note.prompted && !(await this.#prompted(spec, note)))
      return {
        ...failedToStart("the prompt could not be delivered", this.#time()),
        startedAt: note.startedAt,
      };
    for (let unknownLooks = 0; ; ) {
      const pane = await this.#watchedPane(note.pane);
      if (signal.aborted) return new Promise(() => {});
      const ended = { ...failedToStart("", this.#time()), problem: null, startedAt: note.startedAt };
      if (pane === undefined) return { ...ended, lost: true };
      const known = pane.code !== null || pane.signal !== null;
      if (pane.dead && !known) {
        // The window closes a moment before the server is told how its program ended, and now and then it misses the word.
        await this.#server.reap().catch(() => {});
        unknownLooks += 1;
      }
      if (unknownLooks > UNKNOWN_LOOKS) return { ...ended, lost: true };
      if (pane.dead && known) {
        // How it ended counts without what it showed.
        await this.#keepOutput(spec, pane).catch(() => {});
        return { ...ended, code: pane.signal === null ? pane.code : null, signal: signalName(pane.signal) };
      }
      await this.#clock.sleep(LOOK_MS, signal);
    }
  }

  /** False when the program lives and never took it. One that has ended is told by whoever looks for it next. */
  async #prompted(spec: LaunchSpec, note: WindowNote): Promise<boolean> {
    const taken = await this.#delivered(spec, note.pane).catch(async (error: unknown) => {
      if (await this.#isAlive(note.pane)) throw error;
      return false;
    });
    if (taken) writeWhole(agentFiles(spec.folder).window, JSON.stringify({ ...note, prompted: true }));
    return taken || !(await this.#isAlive(note.pane));
  }

  async #delivered(spec: LaunchSpec, pane: string): Promise<boolean> {
    const { paste } = agentFiles(spec.folder);
    const before = await this.#quiet(pane);
    if (before === undefined) return false;
    writeWhole(paste, pasteable(readFileSync(spec.prompt.path, "utf8")));
    await this.#server.paste(pane, `fleet-${spec.name}`, paste);
    await this.#changed(pane, before);
    await this.#clock.sleep(APART_MS);
    return this.#sentOff(pane);
  }

  /** Enter alone, and again while the window shows no change: programs lose it right after a paste. */
  async #sentOff(pane: string): Promise<boolean> {
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const before = await this.#server.screen(pane);
      await this.#server.enter(pane);
      if (await this.#changed(pane, before, TAKEN_MS * tries)) return true;
    }
    return false;
  }

  /** The screen once it stays as it is; undefined when it never shows anything. */
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

  async #keepOutput({ folder, logBytes }: LaunchSpec, { id }: Pane): Promise<void> {
    const text = Buffer.from(await this.#server.screen(id, true));
    writeWhole(agentFiles(folder).output, text.subarray(Math.max(0, text.length - logBytes)));
  }

  async #stop(id: string, exited: Promise<Exit>, graceMs: number): Promise<void> {
    const over = exited.then(() => true);
    const within = (ms: number) => Promise.race([over, this.#clock.sleep(ms).then(() => false)]);
    const pane = await this.#pane(id);
    // The program of a window leads its group and its session.
    if (pane !== undefined && !pane.dead) signalGroup(pane.pid, "SIGTERM");
    if (await within(graceMs)) return;
    if (pane !== undefined && !pane.dead) signalGroup(pane.pid, "SIGKILL");
    await within(KILLED_MS);
  }

  async #pane(id: string): Promise<Pane | undefined> {
    return (await this.#server.panes()).find((pane) => pane.id === id);
  }

  /** A tmux that does not answer now is asked again: its program may live, and to call it ended would have the task done twice. */
  async #watchedPane(id: string): Promise<Pane | undefined> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        return await this.#pane(id);
      } catch {
        await this.#clock.sleep(LOOK_MS, signal);
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

/** Short, because the path of a socket may not be long; the same for every runner of the folder. */
function socketOf(root: string): string {
  return `fleet-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`;
}

/** A window inherits from the tmux server, which has the runner's environment; the rest must be said, and can be seen by others. */
function ownEnv(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => process.env[name] !== value));
}

/** Without control characters: one of them could end the paste and type on. */
export function pasteable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out.
  return text.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}

function signalName(number: number | null): string | null {
  if (number === null) return null;
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? String(number);
}
