import { delimiter } from "node:path";

/**
 * The environment in which npm runs as a user starts it, outside of this project's npm: its settings would reach it through the
 * environment, and with this project's Node it would not find the settings of the machine, which lie beside the Node that is installed there.
 */
export function npmEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  const places = (process.env.PATH ?? "").split(delimiter).filter((folder) => !/node_modules/.test(folder));
  return { ...Object.fromEntries(inherited), PATH: places.join(delimiter) };
}
