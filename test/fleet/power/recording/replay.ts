// Cuts the power at many moments of a recording, and lets a real process judge what is left.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";

import { join } from "node:path";
import { createInterface } from "node:readline";
import { Playback, type SyncKind } from "./playback.ts";
import { randomOf, writeAfterCut } from "./power-cut.ts";
import type { Recording } from "./recorder.ts";

const MEMORY = "/dev/shm";

export interface ReplayOptions {
  readonly seed: number;
  /** The number of states. */
  readonly cuts: number;
  /** The program that answers each line of its input with a problem, or with an empty line. */
  readonly program: string;
  /** What the program is asked for; it also receives the folder of the state, and what had been printed before the cut. */
  readonly kind: (cut: number) => string;
  /** The syncs that bring nothing to the disk, as if the recorded program did without them. */
  readonly without?: SyncKind;
  /** Ends the replay after so many losses. */
  readonly lossesMax?: number;
}

export interface Loss {
  readonly cut: number;
  /** The position of the cut among the moments of the recording. */
  readonly moment: number;
  readonly problem: string;
}

export async function replay(recording: Recording, o: ReplayOptions): Promise<Loss[]> {
  const random = randomOf(o.seed);
  const at = momentsOf(recording);
  const cuts = Array.from({ length: o.cuts }, () => at[random(at.length)]!).sort((a, b) => a - b);
  const playback = new Playback(recording, o.without);
  const judge = new Judge(o.program);
  const base = mkdtempSync(join(statesFolder(), "fleet-power-cut-"));
  const losses: Loss[] = [];
  const max = o.lossesMax ?? Number.POSITIVE_INFINITY;
  try {
    for (let next = 0, cut = 0; cut < cuts.length && losses.length < max; cut += 1) {
      for (; next <= cuts[cut]!; next += 1) playback.step(recording.moments[next]!);
      const path = join(base, String(cut));
      // A seed of its own, so that a cut can be repeated alone.
      writeAfterCut(playback.disk, randomOf(o.seed + 1 + cut), path);
      const problem = await judge.answer({ kind: o.kind(cut), path, printed: playback.printed });
      if (problem !== "") losses.push({ cut, moment: cuts[cut]!, problem });
      rmSync(path, { recursive: true, force: true });
    }
    return losses;
  } finally {
    await judge.end();
    rmSync(base, { recursive: true, force: true });
  }
}

/** In memory where possible: what the judging process writes need not survive. */
const statesFolder = (): string => (existsSync(MEMORY) ? MEMORY : tmpdir());

/** The positions at which files changed or something was printed. */
function momentsOf(recording: Recording): number[] {
  const playback = new Playback(recording);
  return recording.moments.flatMap((moment, i) => (playback.step(moment) ? [i] : []));
}

/** Runs one process after the other: a damaged state may end it. */
class Judge {
  readonly #program: string;
  #child: ChildProcess | undefined;
  #lines: AsyncIterator<string> | undefined;

  constructor(program: string) {
    this.#program = program;
  }

  async answer(question: unknown): Promise<string> {
    this.#child ??= spawn(process.execPath, [this.#program], { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines ??= createInterface(this.#child.stdout!)[Symbol.asyncIterator]();
    this.#child.stdin!.write(`${JSON.stringify(question)}\n`);
    const { value, done } = await this.#lines.next();
    if (done !== true) return value;
    const child = this.#child;
    this.#child = undefined;
    this.#lines = undefined;
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    return `the process ended: ${child.signalCode ?? child.exitCode}`;
  }

  async end(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.stdin!.end();
    await once(child, "exit");
  }
}
