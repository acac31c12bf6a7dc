// Opens an address in the browser of this machine.

import { spawn } from "node:child_process";

const BROWSERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};

/** The printed address is there if it fails. */
export function openBrowser(url: string): void {
  const [program = "", ...args] = BROWSERS[process.platform] ?? ["xdg-open"];
  const child = spawn(program, [...args, url], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
