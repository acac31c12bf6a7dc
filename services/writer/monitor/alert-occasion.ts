/**
 * One occasion of a condition that several writers watch, from its begin to its relief. The writers raise one alert for it, because the
 * position of the earlier alert is part of the new one's id.
 */
import type { EarlierAlert } from "./earlier-alert.ts";

export class AlertOccasion {
  readonly #newest: () => Promise<EarlierAlert>;
  #isAlerted = false;
  /** The newest alert when the condition was last seen relieved. null: not seen since the last alert. */
  #earlierSeq: number | null = null;

  /** @param newest the newest alert of the condition, by any writer. */
  constructor(newest: () => Promise<EarlierAlert>) {
    this.#newest = newest;
  }

  /** @param isStill asked after the lookup, during which another writer may have alerted. */
  async relieve(isStill: () => Promise<boolean> = async () => true): Promise<void> {
    this.#isAlerted = false;
    if (this.#earlierSeq !== null) return;
    const { seq } = await this.#newest();
    if (await isStill()) this.#earlierSeq = seq;
  }

  /** @param isNewSince decides where the relief was not seen: whether an alert of that time belongs to an earlier occasion. */
  async alertOnce(
    raise: (earlierSeq: number) => Promise<void>,
    isNewSince: (earlierAtMs: number) => boolean,
  ): Promise<void> {
    if (this.#isAlerted) return;
    const { seq, atMs } = await this.#newest();
    const isNew = this.#earlierSeq === null ? isNewSince(atMs) : seq <= this.#earlierSeq;
    if (isNew) await raise(seq);
    this.#isAlerted = true;
    this.#earlierSeq = null;
  }
}
