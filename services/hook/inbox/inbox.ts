/**
 * The events on disk, and the answers to them. A hook process writes each event before the helper knows of it, and the helper removes it
 * when the fleet has it. So an event survives the end of both, and an outage of the fleet.
 */
import {
  type FSWatcher,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";

const NAME = /^\d{14}-\d{1,10}\.event$/;
/** Behind the name of an event that could not be opened. */
const ASIDE = ".sealed";
/** During a long outage the oldest events are dropped. */
const EVENTS_MAX = 5_000;

export class Inbox {
  readonly #folder: string;
  readonly #answers: string;
  readonly #log: Logger;

  constructor(root: string, log: Logger) {
    this.#folder = join(root, "inbox");
    this.#answers = join(root, "answers");
    this.#log = log;
    for (const folder of [this.#folder, this.#answers]) mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#removeParts();
  }

  /** `found` gets the names of new events. */
  watch(found: (name: string) => void): Stop {
    const watcher: FSWatcher = watch(this.#folder, (_, name) => {
      if (name !== null && NAME.test(name)) found(name);
    });
    // The helper also looks at intervals.
    watcher.on("error", (error) => this.#log.warn({ error }, "the folder of events cannot be watched"));
    return async () => watcher.close();
  }

  /** A hook process that was killed while it wrote leaves a part of an event. */
  #removeParts(): void {
    for (const name of readdirSync(this.#folder).filter((one) => one.endsWith(".part"))) {
      const writer = Number(/-(\d+)\.event\.part$/.exec(name)?.[1]);
      if (!isRunning(writer)) this.remove(name);
    }
  }

  /** A new helper tries the events again that were set aside: their key may be there by then. Only the helper that serves the folder may call this. */
  putBack(): void {
    for (const name of readdirSync(this.#folder).filter(isAside))
      this.#rename(name, name.slice(0, -ASIDE.length));
  }

  /** The names of the events that are not set aside, the oldest first. The limit counts all of them. */
  names(): string[] {
    const names = readdirSync(this.#folder)
      .filter((name) => NAME.test(name) || isAside(name))
      .map((name) => ({ name, at: this.#keptAt(name) ?? 0 }))
      .sort((a, b) => a.at - b.at || (a.name < b.name ? -1 : 1))
      .map(({ name }) => name);
    const dropped = names.slice(0, Math.max(0, names.length - EVENTS_MAX));
    for (const name of dropped) this.remove(name);
    if (dropped.length > 0) this.#log.error({ events: dropped.length }, "the oldest events were dropped");
    return names.slice(dropped.length).filter((name) => !isAside(name));
  }

  /** undefined: it is done, or it was never there. `keptAt`: milliseconds since the epoch. */
  read(name: string): { readonly text: string; readonly keptAt: number } | undefined {
    if (!NAME.test(name)) return undefined;
    try {
      const text = readFileSync(join(this.#folder, name), "utf8");
      const keptAt = this.#keptAt(name);
      return keptAt === undefined ? undefined : { text, keptAt: Math.floor(keptAt) };
    } catch {
      return undefined;
    }
  }

  /** The event stays on disk, under another name, and holds up no other. */
  setAside(name: string): void {
    this.#rename(name, `${name}${ASIDE}`);
  }

  /** The event may be gone: an operator or another helper removes it at any time. */
  #rename(from: string, to: string): void {
    try {
      renameSync(join(this.#folder, from), join(this.#folder, to));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }

  remove(name: string): void {
    rmSync(join(this.#folder, name), { force: true });
  }

  /** For the hook process, which waits for this file. */
  answer(name: string, text: string): void {
    const path = join(this.#answers, name);
    writeFileSync(`${path}.part`, text, { mode: 0o600 });
    renameSync(`${path}.part`, path);
  }

  /** Removes the answers that are older. Their hook processes have read them, or have ended. */
  forgetAnswers(olderThan: number): void {
    for (const name of readdirSync(this.#answers)) {
      const path = join(this.#answers, name);
      const at = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? olderThan;
      if (at < olderThan) rmSync(path, { force: true });
    }
  }

  #keptAt(name: string): number | undefined {
    return statSync(join(this.#folder, name), { throwIfNoEntry: false })?.mtimeMs;
  }
}

const isAside = (name: string): boolean => name.endsWith(ASIDE) && NAME.test(name.slice(0, -ASIDE.length));

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
