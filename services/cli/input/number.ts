// Parsers of numbers in options. Commander turns their exception into a usage error that names the option.

import { InvalidArgumentError } from "commander";

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`;
    throw new InvalidArgumentError(`Give a whole number, ${range}.`);
  };
}

/** 0 to 100, with or without the percent sign. */
export function percent(text: string): number {
  const value = /^\d+(\.\d+)?%?$/.test(text) ? Number(text.replace("%", "")) : Number.NaN;
  if (value <= 100) return value;
  throw new InvalidArgumentError("Give a number from 0 to 100.");
}
