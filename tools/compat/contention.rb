# Ruby threads under contention: Mutex, ConditionVariable, Queue, SizedQueue, Monitor, Timeout, and a fork among threads. The
# interpreter's own lock is a mutex with condition variables, and its timer thread waits on one. Arguments: threads,
# operations in all. Prints "ok".
require "monitor"
require "timeout"
require "digest/sha2" # loaded here, because threads that load it at the same moment find it incomplete

threads, operations = ARGV.map(&:to_i)
each = operations / threads
ring_rounds = 10

lock, monitor, turn_lock = Mutex.new, Monitor.new, Mutex.new
turned = ConditionVariable.new
mail, narrow, replies = Queue.new, SizedQueue.new(4), Queue.new
counter = nested = turn = 0
Thread.abort_on_exception = true

team = threads.times.map do |me|
  Thread.new do
    each.times do |i|
      lock.synchronize do
        seen = counter
        Thread.pass if (i % 50).zero?
        counter = seen + 1
      end
      monitor.synchronize { monitor.synchronize { nested += 1 } }
      next unless (i % 10).zero?
      mail << i
      narrow.push([me, i])
      Digest::SHA256.digest("x" * 20_000)  # releases the interpreter's lock
    end
    ring_rounds.times do |round|
      turn_lock.synchronize do
        turned.wait(turn_lock) until turn == round * threads + me
        turn += 1
        turned.broadcast
      end
    end
    replies << me
    each
  end
end

letters = threads * ((each + 9) / 10)
received = letters.times.map { narrow.pop }
summed = letters.times.sum { mail.pop }
returned = team.sum(&:value)
expected_sum = threads * (0...each).step(10).sum

# Some waits end by their time limit; others end before it, by another thread's signal.
idle, idle_lock = ConditionVariable.new, Mutex.new
timed_out = 0
begin
  Timeout.timeout(0.02) { Queue.new.pop }
rescue Timeout::Error
  timed_out += 1
end
idle_lock.synchronize { idle.wait(idle_lock, 0.02) }
woken = false
sleeper = Thread.new { idle_lock.synchronize { idle.wait(idle_lock, 30) until woken } }
idle_lock.synchronize do
  woken = true
  idle.signal
end
sleeper.join
sleeping = Thread.new { Queue.new.pop }
Thread.pass until sleeping.status == "sleep"
sleeping.kill.join

# The child of a fork has only the thread that called fork. It must be able to start threads, whatever the parent's
# other threads did at the fork.
noise = Array.new(3) { Thread.new { loop { lock.synchronize { counter += 0 } } } }
statuses = Array.new(3) do
  pid = fork do
    sum = Array.new(3) { |n| Thread.new { Mutex.new.synchronize { n } } }.sum(&:value)
    exit!(sum == 3 ? 0 : 1)
  end
  Process.wait2(pid)[1].exitstatus
end
noise.each { |t| t.kill.join }

checks = {
  "counter" => counter == threads * each,
  "nested counter" => nested == threads * each,
  "ring" => turn == ring_rounds * threads,
  "queue's sum" => summed == expected_sum,
  "bounded queue" => received.sort == threads.times.flat_map { |t| (0...each).step(10).map { |i| [t, i] } },
  "order in the bounded queue" => received.group_by(&:first).values.all? { |l| l == l.sort },
  "threads' values" => returned == threads * each && replies.size == threads,
  "time limit" => timed_out == 1,
  "killed thread" => sleeping.status == false,
  "children" => statuses == [0, 0, 0]
}
wrong = checks.reject { |_, right| right }.keys
abort "wrong: #{wrong.join(', ')}" unless wrong.empty?
puts "ok"
