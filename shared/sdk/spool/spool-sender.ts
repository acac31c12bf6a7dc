/**
 * Sends what a spool holds, oldest first, and forgets a file when the queue has all of it. Before each batch a mark says how far the
 * file may be sent: whoever goes on after a crash repeats that batch at most, under the same ids, within the time in which the
 * fleet remembers them. What is older and may have been sent is set aside for a person: sending it could apply it twice.
 */
import { BusError } from "../../bus/bus.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { SpoolFolder } from "./folder.ts";
import { type Aside, type AsideReason, type Line, linesOf, type Mark, type SpooledCommand } from "./line.ts";

/** Resolves when the queue has it; or says why it will never take it. Throws what may pass. */
export type Send = (command: SpooledCommand) => Promise<"too_large" | "forbidden" | undefined>;

export interface SenderParts {
  readonly folder: SpoolFolder;
  readonly clock: Clock;
  readonly send: Send;
  /** Told of each command that waits no longer, in order of its task. */
  readonly onGone: (command: SpooledCommand) => void;
  readonly onAside: (aside: Aside, command: SpooledCommand | undefined) => void;
}

type CommandLine = Line & { readonly kind: "command" };

const BATCH_COUNT = 64;
const NEVER: Mark = { acked: 0, sending: 0, at: 0 };

export class SpoolSender {
  readonly #parts: SenderParts;
  /** The file under way, and the places of its lines that are done: a failed batch is taken up again without them. */
  #file = "";
  readonly #done = new Set<number>();

  constructor(parts: SenderParts) {
    this.#parts = parts;
  }

  /** True when nothing was left; false when it was told to stop. Throws what `send` and the disk throw: then call it again later. */
  async run(signal: AbortSignal): Promise<boolean> {
    const { folder } = this.#parts;
    while (!signal.aborted) {
      const [name] = await folder.closed();
      if (name === undefined) {
        if (await folder.close()) continue;
        return true;
      }
      if (name !== this.#file) this.#done.clear();
      this.#file = name;
      if (await this.#sendFile(name, signal)) await folder.remove(name);
    }
    return false;
  }

  async #sendFile(name: string, signal: AbortSignal): Promise<boolean> {
    const bytes = await this.#parts.folder.read(name);
    const lines = [...linesOf(bytes)];
    const commands = unsent(lines).filter(({ start }) => !this.#done.has(start));
    for (let at = 0; at < commands.length; at += BATCH_COUNT) {
      if (signal.aborted) return false;
      await this.#sendBatch(name, bytes, commands.slice(at, at + BATCH_COUNT), lastMark(lines));
    }
    // A line that was cut short was promised to nobody, one that the disk spoiled was; they look the same, so all are kept.
    for (const line of lines) if (line.kind === "damaged") await this.#setAside("damaged", bytes, line);
    return true;
  }

  /** The commands of one task go one after the other, the tasks side by side. */
  async #sendBatch(name: string, bytes: Uint8Array, batch: readonly CommandLine[], before: Mark) {
    const { folder, clock } = this.#parts;
    const [first, last] = [batch[0]!, batch.at(-1)!];
    const inDoubt = first.start < before.sending;
    const mark = { acked: first.start, sending: last.end, at: inDoubt ? before.at : clock.now() };
    await folder.mark(name, mark).catch(unlessFull);
    const chains = [...Map.groupBy(batch, ({ command }) => `${command.tenant}.${command.taskId}`).values()];
    const ends = await Promise.allSettled(chains.map((chain) => this.#sendChain(bytes, chain, before)));
    // All chains have ended before the caller hears of a failure: none may go on behind its back.
    const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    if (failures.length === 0) return;
    const nothingSent = failures.every(isCertain) && !batch.some(({ start }) => this.#done.has(start));
    if (nothingSent) await folder.mark(name, { ...before, acked: first.start }).catch(unlessFull);
    throw failures[0];
  }

  async #sendChain(bytes: Uint8Array, chain: readonly CommandLine[], mark: Mark): Promise<void> {
    const { clock, send, onGone } = this.#parts;
    for (const line of chain) {
      const { command } = line;
      const since = sentSince(line, mark);
      const forgotten = since !== undefined && clock.now() - since > LIMITS.redelivery_ms_max;
      const refused = forgotten ? "doubtful" : await send(command);
      if (refused !== undefined) await this.#setAside(refused, bytes, line, command);
      this.#done.add(line.start);
      onGone(command);
    }
  }

  async #setAside(reason: AsideReason, bytes: Uint8Array, line: Line, command?: SpooledCommand) {
    const aside = { reason, at: this.#parts.clock.now(), line: kept(bytes.subarray(line.start, line.end)) };
    await this.#parts.folder.setAside([aside]);
    this.#parts.onAside(aside, command);
  }
}

/** The commands of a file that its marks leave to be sent. */
export function unsent(lines: readonly Line[]): CommandLine[] {
  const acked = Math.max(0, ...lines.map((line) => (line.kind === "mark" ? line.mark.acked : 0)));
  return lines.flatMap((line) => (line.kind === "command" && line.start >= acked ? [line] : []));
}

function lastMark(lines: readonly Line[]): Mark {
  const last = lines.findLast((line) => line.kind === "mark");
  return last?.kind === "mark" ? last.mark : NEVER;
}

/** Since when a command may have been sent; undefined: it was not. */
function sentSince({ start, command }: CommandLine, mark: Mark): number | undefined {
  const times = [...(start < mark.sending ? [mark.at] : []), ...(command.sent ? [command.at] : [])];
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Whether the queue has certainly not stored what failed so. */
function isCertain(error: unknown): boolean {
  return error instanceof BusError && error.kind !== "timeout";
}

function kept(line: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(line).replace(/^\n/, "");
  } catch {
    return Buffer.from(line).toString("base64");
  }
}

/** A full disk must not keep us from making room on it; without the mark a crash costs only more repetition. */
function unlessFull(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOSPC" && error.code !== "EDQUOT") throw error;
}
