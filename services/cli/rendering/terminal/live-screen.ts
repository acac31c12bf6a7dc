// The alternate screen of a terminal, for views that redraw themselves. What was on the terminal returns when it is closed.

import type { ProcessContext } from "../../runtime/process-context.ts";
import { inReadingOrder } from "./text.ts";

const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";
const CLEAR_LINE = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
/** `q` and, because a terminal that sends single keys sends no signals, Ctrl-C and Ctrl-D. */
const QUIT = ["q", "Q", "\u0003", "\u0004"];

export class LiveScreen {
  readonly #context: ProcessContext;
  /** Resolves when the operator ends the view. */
  readonly quit: Promise<void>;
  #onKeys: (keys: Buffer) => void = () => {};
  #onResize: () => void;

  /** @param onResize called when the terminal has another size. */
  constructor(context: ProcessContext, onResize: () => void) {
    const { stdin, stdout } = context;
    this.#context = context;
    this.#onResize = onResize;
    this.quit = new Promise((resolve) => {
      this.#onKeys = (keys) => {
        const typed = keys.toString();
        if (QUIT.some((key) => typed.includes(key))) resolve();
      };
    });
    if (stdin.isTTY) {
      stdin.setRawMode(true);
      stdin.on("data", this.#onKeys);
      stdin.resume();
    }
    process.on("SIGWINCH", this.#onResize);
    stdout.write(ENTER);
  }

  draw(lines: readonly string[]): void {
    const text = lines.map((line) => `${inReadingOrder(line)}${CLEAR_LINE}`).join("\r\n");
    this.#context.stdout.write(`${HOME}${text}${CLEAR_BELOW}`);
  }

  close(): void {
    const { stdin, stdout } = this.#context;
    process.off("SIGWINCH", this.#onResize);
    stdout.write(LEAVE);
    if (!stdin.isTTY) return;
    stdin.setRawMode(false);
    stdin.off("data", this.#onKeys);
    stdin.pause();
  }
}
