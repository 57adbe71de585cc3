# Completion of the usher command, for bash; made by `make man` of the options' help texts.
_usher_value() {  # what completes the value of "SUBCOMMAND OPTION"
  case $1 in
    'run --lock' | 'stat --lock' | 'record --lock') echo lock ;;
    'run --rwlock' | 'try --rwlocks') echo pthread phase-fair bravo ;;
    'run --cond-append' | 'run --sem-append' | 'try --budget' | 'try --rounds' | 'try --warmup' | 'try --seed' | 'try --metric' | 'try --before' | 'try --until' | 'try --ready' | 'try --timeout' | 'check --scenario' | 'check --threads' | 'check --executions' | 'check --seed' | 'check --replay' | 'check --differences' | 'check --programs' | 'check --acquisitions' | 'check --weaken-at' | 'check --jobs' | 'stat --top' | 'stat --duration' | 'stat --until' | 'stat --objects' | 'top --batch' | 'top --period' | 'top --duration' | 'top --limit' | 'diff --fail-above' | 'diff --top' | 'record --threads-are' | 'record --windows' | 'record --length' | 'record --every' | 'record --events' | 'record --duration' | 'sim --seeds' | 'sim --jitter' | 'sim --ms' | 'sim --warm-up' | 'sim --set-machine' | 'sim --vary' | 'sim --others' | 'sim --jobs' | 'sim --threads' | 'sim --set' | 'sim --title' | 'sim --size' | 'sim --timeout' | 'sim --point' | 'sim --trace' | 'sim --seed' | 'sim validate --threads' | 'sim validate --set-machine' | 'sim validate --spin' | 'sim validate --seconds' | 'sim validate --rounds' | 'sim validate --seeds' | 'bench --rounds' | 'bench --seconds' | 'bench --threads' | 'bench --set' | 'bench --title' | 'bench --size' | 'bench --timeout' | 'bench --point' | 'predict --threads' | 'predict --halve' | 'predict --split' | 'predict --role' | 'predict --seeds' | 'predict --ms' | 'predict --set-machine' | 'predict --title' | 'predict --size' | 'predict --timeout' | 'predict --jobs' | 'predict --point') echo nothing ;;
    'try --locks' | 'sim --locks' | 'sim validate --locks' | 'bench --locks' | 'predict --locks') echo locks ;;
    'try --json' | 'try --show' | 'check --json' | 'check --show' | 'stat --json' | 'stat --pprof' | 'stat --otlp' | 'stat --folded' | 'stat --trace' | 'stat -o' | 'stat --output' | 'top --json' | 'diff --a' | 'diff --b' | 'diff --json' | 'report -o' | 'report --output' | 'record --trace' | 'record -o' | 'record --output' | 'sim --json' | 'sim --csv' | 'sim --chart' | 'sim --merge' | 'sim --machine-from-lstopo' | 'sim calibrate -o' | 'sim calibrate --output' | 'sim validate --json' | 'bench --json' | 'bench --csv' | 'bench --chart' | 'bench --merge' | 'predict --json' | 'predict --chart') echo file ;;
    'try --colour' | 'try --color') echo auto always never ;;
    'check --forms') echo plain spin park ;;
    'check --scheduler') echo random bound full ;;
    'stat -p' | 'stat --pid') echo process ;;
    'sim --machine' | 'sim --like' | 'sim validate --machine' | 'predict --machine') echo machine ;;
    'sim --spin' | 'predict --lines') echo auto ;;
    'sim --placement') echo compact scattered even random ;;
    'sim --chart-metric' | 'bench --chart-metric') echo throughput latency latency-p99 latency-longest hand-over lwss mttr utilisation gini cpus switches misses ;;
    'sim --log' | 'bench --log' | 'predict --log') echo x y xy none ;;
  esac
}
_usher_options() {
  case $1 in
    list) echo --help --all --json ;;
    run) echo --help --lock --rwlock --cond-append --sem-append --print-env --quiet -- ;;
    try) echo --help --locks --rwlocks --all --budget --rounds --warmup --seed --metric --lower --higher --before --until --ready --timeout --details --markdown --plot --json --show --colour --quiet -- ;;
    status) echo --help ;;
    check) echo --help --all --mutants --list --forms --scenario --threads --executions --seed --replay --scheduler --differences --programs --acquisitions --weaken --weaken-at --jobs --json --show --quiet ;;
    stat) echo --help --lock --pid --top --duration --until --details --hold-times --trust-filter --objects --json --pprof --otlp --folded --trace --output -- ;;
    top) echo --help --all-mine --once --batch --period --duration --limit --json ;;
    diff) echo --help --a --b --fail-above --top --json ;;
    report) echo --help --output ;;
    record) echo --help --lock --threads-are --windows --length --every --events --duration --names --trace --output -- ;;
    sim) echo --help --machine --seeds --jitter --ms --warm-up --spin --placement --together --set-machine --vary --others --jobs --locks --threads --pinned --set --json --csv --chart --chart-metric --title --size --log --log-x --log-y --details --timeout --list --list-points --point --merge --mixed --quiet --trace --seed --machine-from-lstopo --like ;;
    sim\ calibrate) echo --help --output ;;
    sim\ validate) echo --help --machine --locks --threads --pinned --set-machine --spin --seconds --rounds --seeds --json --quiet ;;
    bench) echo --help --rounds --seconds --locks --threads --pinned --set --json --csv --chart --chart-metric --title --size --log --log-x --log-y --details --timeout --list --list-points --point --merge --mixed --quiet ;;
    predict) echo --help --machine --locks --threads --halve --split --role --lines --seeds --ms --set-machine --no-unknowns --json --chart --title --size --log --details --timeout --jobs --point --quiet ;;
    help) echo --help ;;
  esac
}
_usher_first() {  # what completes a word that is no option
  case $1 in
    list) echo lock ;;
    status) echo process ;;
    check) echo lock mutants ;;
    top) echo process ;;
    diff) echo file ;;
    report) echo file ;;
    sim) echo workload calibrate validate ;;
    bench) echo workload ;;
    predict) echo file ;;
    help) echo list run try status check stat top diff report record sim bench predict help ;;
  esac
}
_usher_words() {  # the words that a kind stands for
  case $1 in
    lock | locks) usher list --json | sed -n 's/.*"name": "\(.*\)",/\1/p' ;;
    machine) usher sim --list | sed -n '/^Machines/,$s/^    \([^ ]*\) .*/\1/p' ;;
    workload) usher bench --list | sed -n '/^This/q; s/^\([a-z-]*\):.*/\1/p' ;;
    process) pgrep -u "$EUID" ;;
    file | nothing) ;;
    *) echo "$1" ;;
  esac 2> /dev/null
}
_usher_complete() {  # completes the word by these kinds and words
  local word=$1 kind head= files=()
  shift
  for kind; do
    [[ $kind == file || $kind == machine ]] && files=(-f)
    [[ $kind == locks && $word == *,* ]] && head=${word%,*},  # a list: completes the part after the last comma
  done
  mapfile -t COMPREPLY < <(compgen ${head:+-P "$head"} "${files[@]}" -W "$(for kind; do _usher_words "$kind"; done)" -- "${word#"$head"}")
}
_usher() {
  local word=${COMP_WORDS[COMP_CWORD]} i sub=${COMP_WORDS[1]} kind part parts=()
  COMPREPLY=()
  # NAME=LOCK and --option=value are three words to bash; the option is before the first, or is it.
  i=$COMP_CWORD
  [[ $word == '=' ]] && word= && ((i++))
  while ((i > 2)) && [[ ${COMP_WORDS[i - 1]} == '=' ]]; do ((i -= 2)); done
  local before=${COMP_WORDS[i - 1]}
  ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} == --* ]] && before=${COMP_WORDS[i]}
  # Words after "--" belong to another command.
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset > /dev/null; then _command_offset $((i + 1)); fi
      return
    fi
  done
  if ((COMP_CWORD == 1)); then
    _usher_complete "$word" list run try status check stat top diff report record sim bench predict help --help --version
    return
  fi
  for part in 'sim calibrate' 'sim validate'; do ((COMP_CWORD > 2)) && [[ $part == "$sub ${COMP_WORDS[2]}" ]] && sub=$part && break; done
  if [[ $sub == help ]] && ((COMP_CWORD > 2)); then
    for part in 'sim calibrate' 'sim validate'; do [[ $part == "${COMP_WORDS[2]} "* ]] && parts+=("${part#* }"); done
    _usher_complete "$word" "${parts[@]}"
    return
  fi
  kind=$(_usher_value "$sub $before")
  if [[ $kind ]]; then
    _usher_complete "$word" $kind
  elif [[ $word != -* && $(_usher_first "$sub") ]]; then
    _usher_complete "$word" $(_usher_first "$sub")
  else
    _usher_complete "$word" $(_usher_options "$sub")
  fi
}
complete -F _usher usher
