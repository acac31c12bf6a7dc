// A real Chromium with a virtual authenticator, driven through its DevTools protocol: the person at the browser.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";

const WAIT_MS = 60_000;
const PROGRAM = ["chromium", "chromium-browser", "google-chrome"].find(
  (name) => spawnSync(name, ["--version"]).status === 0,
);

export const hasBrowser = PROGRAM !== undefined;
if (!hasBrowser) process.stderr.write("chromium is not on PATH: passkeys in a browser are not tested\n");

const ARGUMENTS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--remote-debugging-port=0",
];

export interface Browser {
  visit(url: string): Promise<void>;
  /** Clicks on the button with this text, when the page has it. */
  press(button: string): Promise<void>;
  /** Waits for a text of the page. */
  shows(text: string): Promise<void>;
  /** The value of an expression in the page. */
  evaluate(expression: string): Promise<unknown>;
  /** Whether the authenticator can verify the person. */
  verifiesPerson(verifies: boolean): Promise<void>;
  /** The next answer of the page waits in the browser. Resolves with what lets it go, when it waits. */
  holdAnswer(): Promise<() => Promise<void>>;
  /** Ends the sessions at all sites, so that another person sits down. */
  logOut(): Promise<void>;
  screenshot(): Promise<Buffer>;
  close(): Promise<void>;
}

type Json = Record<string, unknown>;

export async function openBrowser(): Promise<Browser> {
  const profile = mkdtempSync(join(tmpdir(), "fleet-browser-"));
  const child = spawn(PROGRAM!, [...ARGUMENTS, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: "ignore",
  });
  try {
    const page = await Page.connect(await addressOf(child, profile));
    return {
      ...actsOn(page),
      async close() {
        page.close();
        await ended(child, profile);
      },
    };
  } catch (error) {
    await ended(child, profile);
    throw error;
  }
}

async function ended(child: ChildProcess, profile: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL"))
    await once(child, "exit");
  try {
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  } catch (error) {
    // A process of the browser that ends later still writes to its profile, which no test reads.
    if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
  }
}

/** The browser writes its port and its path when it listens. */
function addressOf(child: ChildProcess, profile: string): Promise<string> {
  return vi.waitFor(
    () => {
      if (child.exitCode !== null) throw new Error(`the browser ended with ${child.exitCode}`);
      const [port, path] = readFileSync(join(profile, "DevToolsActivePort"), "utf8").split("\n");
      if (!path) throw new Error("the browser does not listen yet");
      return `ws://127.0.0.1:${port}${path}`;
    },
    { timeout: WAIT_MS, interval: 50 },
  );
}

class Page {
  readonly #socket: WebSocket;
  readonly #calls = new Map<number, { resolve: (value: Json) => void; reject: (error: Error) => void }>();
  readonly #listeners = new Map<string, (parameters: Json) => void>();
  #session: string | undefined;
  #id = 0;
  authenticator = "";

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#take(JSON.parse(String(data))));
  }

  static async connect(address: string): Promise<Page> {
    const socket = new WebSocket(address);
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      socket.addEventListener("error", () => reject(new Error("the browser refused the connection")));
    });
    const page = new Page(socket);
    const { targetId } = await page.call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await page.call("Target.attachToTarget", { targetId, flatten: true });
    page.#session = String(sessionId);
    await page.call("Page.enable");
    await page.call("WebAuthn.enable");
    const { authenticatorId } = await page.call("WebAuthn.addVirtualAuthenticator", {
      options: {
        ...{ protocol: "ctap2", transport: "internal", hasResidentKey: true },
        ...{ hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
      },
    });
    page.authenticator = String(authenticatorId);
    return page;
  }

  call(method: string, params: Json = {}): Promise<Json> {
    this.#id += 1;
    const id = this.#id;
    this.#socket.send(JSON.stringify({ id, method, params, sessionId: this.#session }));
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
  }

  /** The next event with this name. */
  next(event: string): Promise<Json> {
    return new Promise((resolve) => this.#listeners.set(event, resolve));
  }

  close(): void {
    this.#socket.close();
  }

  #take({ id, method, params, result, error }: Json): void {
    if (typeof method === "string") {
      this.#listeners.get(method)?.(params as Json);
      this.#listeners.delete(method);
      return;
    }
    const call = this.#calls.get(Number(id));
    this.#calls.delete(Number(id));
    if (error === undefined) call?.resolve(result as Json);
    else call?.reject(new Error(JSON.stringify(error)));
  }
}

function actsOn(page: Page): Omit<Browser, "close"> {
  const evaluate = async (expression: string): Promise<unknown> => {
    const { result } = await page.call("Runtime.evaluate", {
      ...{ expression, userGesture: true, returnByValue: true },
    });
    return (result as Json).value;
  };
  const until = (expression: string, about: string) =>
    vi
      .waitUntil(
        // A page that is just being left has no answer.
        async () => (await evaluate(expression).catch(() => false)) === true,
        { timeout: WAIT_MS, interval: 100 },
      )
      .catch(async (error: unknown) => {
        const text = await evaluate("document.body?.innerText").catch(() => "unknown");
        throw new Error(`the page does not show ${about}: ${String(text)}`, { cause: error });
      });
  const button = (text: string) =>
    `[...document.querySelectorAll("button")].find((one) => one.innerText === ${JSON.stringify(text)} && !one.disabled)`;
  return {
    evaluate,
    visit: async (url) => void (await page.call("Page.navigate", { url })),
    async press(text) {
      await until(`document.readyState === "complete" && ${button(text)} !== undefined`, text);
      await evaluate(`${button(text)}.click()`);
    },
    shows: (text) => until(`document.body.innerText.includes(${JSON.stringify(text)})`, text).then(() => {}),
    verifiesPerson: async (isUserVerified) =>
      void (await page.call("WebAuthn.setUserVerified", {
        ...{ authenticatorId: page.authenticator, isUserVerified },
      })),
    async holdAnswer() {
      await page.call("Fetch.enable", { patterns: [{ urlPattern: "http://localhost*" }] });
      let { requestId, request } = await page.next("Fetch.requestPaused");
      while ((request as Json).method !== "POST") {
        const paused = page.next("Fetch.requestPaused");
        await page.call("Fetch.continueRequest", { requestId });
        ({ requestId, request } = await paused);
      }
      return async () => {
        await page.call("Fetch.continueRequest", { requestId });
        await page.call("Fetch.disable");
      };
    },
    logOut: async () => void (await page.call("Network.clearBrowserCookies")),
    async screenshot() {
      const { data } = await page.call("Page.captureScreenshot", { format: "png" });
      return Buffer.from(String(data), "base64");
    },
  };
}
