/**
 * The events on disk. A hook process writes each before it asks the helper, and the helper removes it when the fleet has it. So an
 * event survives the end of both, and an outage of the fleet.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../shared/runtime/observability/log.ts";

const NAME = /^\d{14}-\d{1,10}\.json$/;
/** During a long outage the oldest events are dropped. */
const EVENTS_MAX = 5_000;

export class Inbox {
  readonly #folder: string;
  readonly #log: Logger;

  constructor(root: string, log: Logger) {
    this.#folder = join(root, "inbox");
    this.#log = log;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#removeParts();
  }

  /** A hook process that was killed while it wrote leaves a part of an event. */
  #removeParts(): void {
    for (const name of readdirSync(this.#folder).filter((one) => one.endsWith(".part"))) {
      const writer = Number(/-(\d+)\.json\.part$/.exec(name)?.[1]);
      if (!isRunning(writer)) this.remove(name);
    }
  }

  /** The names of all events, the oldest first. */
  names(): string[] {
    const names = readdirSync(this.#folder)
      .filter((name) => NAME.test(name))
      .sort();
    const dropped = names.slice(0, Math.max(0, names.length - EVENTS_MAX));
    for (const name of dropped) this.remove(name);
    if (dropped.length > 0) this.#log.error({ events: dropped.length }, "the oldest events were dropped");
    return names.slice(dropped.length);
  }

  /** undefined: it is done, or it was never there. */
  read(name: string): string | undefined {
    if (!NAME.test(name)) return undefined;
    try {
      return readFileSync(join(this.#folder, name), "utf8");
    } catch {
      return undefined;
    }
  }

  remove(name: string): void {
    rmSync(join(this.#folder, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
